"""Picking, packing and labelling stock."""

from __future__ import annotations

from colbench_gym.tasks.families.billing import first, letters, order, reworded, zeros
from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.topics import cap

FAMILIES = (
    Family(
        name="pick_list",
        area="stock",
        request="For an order, given as pairs of item and wanted pieces, list pairs of item and the pieces we can fetch. "
        "The stock is a table of item and pieces on the shelf; an item that is not in it we do not have.",
        signature="def pick_list(order, stock)",
        template="""
def pick_list(order, stock):
    picks = []
    for item, wanted in order:
        left = stock.get(item, 0)
        {reserve}
        {partly}
        amount = min(wanted, left)
        {cap}
        {zero}
        picks.append((item, amount))
    {order}
    return picks
""",
        topics=(
            Topic(
                "reserve",
                ("May I empty the shelf?", "Should some pieces stay on the shelf?"),
                (
                    Option("You may take every piece that is on the shelf.", {}),
                    Option(
                        "Always leave 2 pieces of each item on the shelf; only the rest counts as available.",
                        {"reserve": "left = max(left - 2, 0)"},
                    ),
                    Option(
                        "Always leave 5 pieces of each item on the shelf; only the rest counts as available.",
                        {"reserve": "left = max(left - 5, 0)"},
                    ),
                ),
            ),
            Topic(
                "partly",
                ("What if there are not enough pieces?", "May I pick only a part of what is wanted?"),
                (
                    Option("When there are not enough pieces of an item, take what is available.", {}),
                    Option(
                        "When an item has fewer available pieces than wanted, take none of it; any upper limit comes later.",
                        {"partly": "if left < wanted:\n    left = 0"},
                    ),
                ),
            ),
            reworded(
                cap("amount", (10,)),
                "There is no upper limit on the pieces of an item.",
                "Fetch at most 10 pieces of any one item.",
            ),
            reworded(
                zeros("amount"),
                "Items of which we fetch zero pieces stay on the list.",
                "Leave out items of which we fetch zero pieces.",
            ),
            reworded(
                order("picks"),
                "Keep the items in the order in which they were wanted.",
                "Sort the list by item, capital letters before small ones.",
                "Put the item with the most fetched pieces first; items with equal numbers keep their order.",
            ),
        ),
        calls=(
            "pick_list([('rope', 7), ('Nails', 8), ('Lamp', 5), ('soap', 11)], {'rope': 9, 'Nails': 5, 'soap': 36})",
            "pick_list([('Nails', 13), ('Box', 10), ('soap', 1), ('rope', 12)], {'Nails': 14, 'soap': 3, 'rope': 25})",
            "pick_list([('rope', 12), ('soap', 14), ('Box', 5)], {'rope': 2, 'soap': 39, 'Box': 6})",
            "pick_list([('tea', 3), ('Lamp', 9), ('Box', 8), ('soap', 9)], {'tea': 20, 'Lamp': 6, 'Box': 12, 'soap': 33})",
            "pick_list([('Lamp', 10), ('Nails', 13), ('Box', 10)], {'Lamp': 11, 'Nails': 26, 'Box': 18})",
            "pick_list([('Nails', 6), ('soap', 20), ('Lamp', 1), ('rope', 17)], {'soap': 40, 'Lamp': 18, 'rope': 5})",
            "pick_list([('Nails', 7), ('Box', 8), ('Lamp', 13), ('soap', 14)], {'Nails': 9, 'Box': 19, 'soap': 15})",
            "pick_list([('Nails', 8), ('Box', 5), ('tea', 19)], {'Box': 26, 'tea': 39})",
            "pick_list([('soap', 1), ('Box', 11)], {'soap': 8, 'Box': 27})",
            "pick_list([('Box', 2)], {'Box': 14})",
        ),
    ),
    Family(
        name="pack_boxes",
        area="stock",
        request="We pack things into boxes, and a box holds up to 20 kilos. When the next thing does not fit in the box, "
        "we close that box for good and start a new one. From the weights in kilos, list what goes in each box.",
        signature="def pack_boxes(weights)",
        template="""
def pack_boxes(weights):
    boxes = []
    {sequence}
    for weight in weights:
        {heavy}
        if not boxes or sum(boxes[-1]) + weight > 20{most}:
            boxes.append([])
        boxes[-1].append(weight)
    {show}
    {first}
    return boxes
""",
        topics=(
            Topic(
                "sequence",
                ("Which things are packed first?", "In which order should I pack?"),
                (
                    Option("Pack the things in the order given.", {}),
                    Option(
                        "Sort the things before packing, the heaviest first.",
                        {"sequence": "weights = sorted(weights, reverse=True)"},
                    ),
                    Option("Sort the things before packing, the lightest first.", {"sequence": "weights = sorted(weights)"}),
                ),
            ),
            Topic(
                "heavy",
                ("What if one thing is too heavy for a box?", "How do I treat things above 20 kilos?"),
                (
                    Option("A thing of more than 20 kilos gets a box of its own.", {}),
                    Option(
                        "Leave out things of more than 20 kilos; exactly 20 kilos is still packed.",
                        {"heavy": "if weight > 20:\n    continue"},
                    ),
                ),
            ),
            Topic(
                "most",
                ("How many things may be in one box?", "Is there a limit on pieces per box?"),
                (
                    Option("Any number of things may be in a box, only the weight matters.", {}),
                    Option(
                        "Put at most 2 things in a box; the third goes in a new box even if it is light.",
                        {"most": " or len(boxes[-1]) == 2"},
                    ),
                    Option(
                        "Put at most 3 things in a box; the fourth goes in a new box even if it is light.",
                        {"most": " or len(boxes[-1]) == 3"},
                    ),
                ),
            ),
            Topic(
                "show",
                ("Do you want all weights of a box or one number?", "What should I show for each box?"),
                (
                    Option("For each box show the list of the weights in it.", {}),
                    Option(
                        "For each box show only one number, the total weight in it.",
                        {"show": "boxes = [sum(box) for box in boxes]"},
                    ),
                ),
            ),
            reworded(
                first("boxes", (3,)),
                "List all the boxes.",
                "List only the first 3 boxes; things in later boxes are dropped.",
            ),
        ),
        calls=(
            "pack_boxes([9, 2, 2, 20, 5, 18, 27])",
            "pack_boxes([1, 22, 4, 1, 5, 1, 4])",
            "pack_boxes([3, 1, 13, 1, 18, 4, 12])",
            "pack_boxes([5, 3, 27, 12, 2, 19, 19])",
            "pack_boxes([11, 1, 2, 4, 25])",
            "pack_boxes([17, 5, 23, 11, 3, 5, 18])",
            "pack_boxes([26, 3, 5, 4, 8])",
            "pack_boxes([15, 9, 4, 1, 5, 7, 20])",
            "pack_boxes([5, 1, 5, 26, 1])",
            "pack_boxes([16, 18, 9, 19])",
        ),
    ),
    Family(
        name="shelf_sign",
        area="stock",
        request="Make the text for a shelf sign from the name of an item and the number of pieces left: "
        "the name, a colon, a space and the number.",
        signature="def shelf_sign(item, left)",
        template="""
def shelf_sign(item, left):
    {length}
    {letters}
    amount = str(left)
    {none}
    {many}
    text = item + ": " + amount
    {low}
    return text
""",
        topics=(
            Topic(
                "length",
                ("How long may the name be?", "Should I shorten long names?"),
                (
                    Option("Use the whole name.", {}),
                    Option(
                        "Use only the first 5 characters of the name; spaces count, and a space at the end stays.",
                        {"length": "item = item[:5]"},
                    ),
                    Option(
                        "Use only the first 10 characters of the name; spaces count, and a space at the end stays.",
                        {"length": "item = item[:10]"},
                    ),
                ),
            ),
            reworded(
                letters("item"),
                "Leave the letters of the name as they are.",
                "Write the name in small letters.",
                "Write the name in capital letters.",
            ),
            Topic(
                "none",
                ("What should it say when none are left?", "How do I write zero pieces?"),
                (
                    Option("Write zero as the number 0.", {}),
                    Option(
                        "When no pieces are left, write the word none in small letters instead of the number.",
                        {"none": 'if left == 0:\n    amount = "none"'},
                    ),
                ),
            ),
            Topic(
                "many",
                ("Do you want the exact number when there are many?", "How should large numbers look?"),
                (
                    Option("Give the exact number however large it is.", {}),
                    Option(
                        "Above 50 pieces write the word many in small letters instead of the number; 50 stays a number.",
                        {"many": 'if left > 50:\n    amount = "many"'},
                    ),
                    Option(
                        "Above 100 pieces write the word many in small letters instead of the number; 100 stays a number.",
                        {"many": 'if left > 100:\n    amount = "many"'},
                    ),
                ),
            ),
            Topic(
                "low",
                ("Should the sign warn when few are left?", "Do you want a hint on low stock?"),
                (
                    Option("The sign has no warning when few are left.", {}),
                    Option(
                        "With fewer than 10 pieces left, zero included, add an exclamation mark at the end, without a space.",
                        {"low": 'if left < 10:\n    text += "!"'},
                    ),
                ),
            ),
        ),
        calls=(
            "shelf_sign('Long ladder', 0)",
            "shelf_sign('Long ladder', 53)",
            "shelf_sign('Long ladder', 146)",
            "shelf_sign('Garden lamp', 0)",
            "shelf_sign('Garden lamp', 70)",
            "shelf_sign('Paper towels', 0)",
            "shelf_sign('Garden lamp', 116)",
            "shelf_sign('tea', 0)",
            "shelf_sign('Box', 69)",
            "shelf_sign('Box', 230)",
        ),
    ),
)
