"""Reordering, valuing and merging stock."""

from __future__ import annotations

from colbench_gym.tasks.families.billing import blanks, first, letters, negatives, order, reworded
from colbench_gym.tasks.families.family import Family, Option, Topic
from colbench_gym.tasks.families.topics import cap, rounding

FAMILIES = (
    Family(
        name="reorder_amounts",
        area="inventory",
        request="Tell me what to reorder. From pairs of item and pieces left, list the items with fewer than 20 left, "
        "each with the number of pieces that brings it back to 20.",
        signature="def reorder_amounts(stock)",
        template="""
def reorder_amounts(stock):
    orders = []
    for item, left in stock:
        {negative}
        if left >= 20:
            continue
        amount = 20 - left
        {spare}
        {pack}
        orders.append((item, amount))
    {order}
    {first}
    return orders
""",
        topics=(
            reworded(
                negatives("left"),
                "A negative number of pieces left counts as it is, so that more is ordered.",
                "Skip items with a negative number of pieces left.",
                "Treat a negative number of pieces left as zero.",
            ),
            Topic(
                "spare",
                ("Should I order some extra pieces?", "Do you want a reserve on top of that?"),
                (
                    Option("Order nothing extra.", {}),
                    Option("Order 3 extra pieces of each listed item.", {"spare": "amount += 3"}),
                ),
            ),
            Topic(
                "pack",
                ("Are the items sold in packs?", "Can we order any number of pieces?"),
                (
                    Option("We can order any number.", {}),
                    Option(
                        "Order whole packs of 5: round the pieces, any extra ones included, up to a multiple of 5.",
                        {"pack": "amount = -(-amount // 5) * 5"},
                    ),
                    Option(
                        "Order whole packs of 10: round the pieces, any extra ones included, up to a multiple of 10.",
                        {"pack": "amount = -(-amount // 10) * 10"},
                    ),
                ),
            ),
            reworded(
                order("orders"),
                "Keep the order of the pairs.",
                "Sort by item, capital letters before small ones.",
                "Put the item of which most pieces are ordered first; equal ones keep their order.",
            ),
            reworded(
                first("orders", (3,)),
                "List all of them.",
                "List only the first 3 of them, counted in the final order.",
            ),
        ),
        calls=(
            "reorder_amounts([('soap', 18), ('Box', 10), ('Lamp', -13), ('rope', 1), ('tea', 6)])",
            "reorder_amounts([('Nails', 18), ('rope', 17), ('Lamp', -14), ('Box', 11), ('tea', 11)])",
            "reorder_amounts([('tea', 7), ('Nails', -9), ('Lamp', 14), ('Box', 0), ('soap', 13)])",
            "reorder_amounts([('soap', 19), ('Lamp', -11), ('Box', 18), ('tea', 0), ('rope', 19)])",
            "reorder_amounts([('rope', 2), ('Box', 16), ('Lamp', -15), ('soap', 9)])",
            "reorder_amounts([('Lamp', -3), ('Box', 16), ('soap', 1)])",
            "reorder_amounts([('Lamp', -9), ('Box', 19)])",
            "reorder_amounts([('tea', 5), ('Nails', 1)])",
            "reorder_amounts([('tea', 1), ('Box', 6)])",
            "reorder_amounts([('Lamp', 1), ('Box', 7)])",
        ),
    ),
    Family(
        name="value_by_group",
        area="inventory",
        request="What is our stock worth per product group? Each entry has the group, "
        "the number of pieces and the cost of one piece; make a table of group and worth.",
        signature="def value_by_group(items)",
        template="""
def value_by_group(items):
    values = {}
    for group, count, cost in items:
        {blank}
        {letters}
        {negative}
        {cheap}
        values[group] = values.get(group, 0) + count * cost
    {total}
    return values
""",
        topics=(
            reworded(
                blanks("group"),
                "A blank group stays a group of its own.",
                "Skip entries with a blank group.",
                "Count entries with a blank group under a group called other, written like any group.",
            ),
            reworded(
                letters("group"),
                "Leave the letters as they are, Toys and TOYS are two groups.",
                "Write groups in small letters; groups that become the same are one.",
                "Write groups in capital letters; groups that become the same are one.",
            ),
            reworded(
                negatives("count"),
                "A negative number of pieces counts as it is and lowers the worth.",
                "Skip entries with a negative number of pieces.",
                "Treat a negative number of pieces as zero; the group is still listed.",
            ),
            Topic(
                "cheap",
                ("Do very cheap items count?", "Should I leave out things of little worth?"),
                (
                    Option("Cheap items count as well.", {}),
                    Option("Skip entries where one piece costs less than 2.", {"cheap": "if cost < 2:\n    continue"}),
                ),
            ),
            Topic(
                "total",
                ("Do you want a sum over all groups too?", "Should there be an overall figure?"),
                (
                    Option("No sum over all groups.", {}),
                    Option(
                        "Add one entry called total, in small letters, with the sum over all groups.",
                        {"total": 'values["total"] = sum(values.values())'},
                    ),
                ),
            ),
        ),
        calls=(
            "value_by_group([('toys', 9, 0.5), ('food', -18, 2), ('', 13, 3), ('Tools', 11, 3)])",
            "value_by_group([('Tools', 16, 0.5), ('toys', -3, 10), ('', 8, 2), ('Tools', 4, 10)])",
            "value_by_group([('food', 7, 0.5), ('', 11, 10), ('FOOD', -13, 4.5), ('Tools', 1, 4.5)])",
            "value_by_group([('Tools', -7, 2), ('food', 10, 0.5), ('', 20, 10), ('', 3, 10)])",
            "value_by_group([('', 14, 4.5), ('Tools', 9, 3), ('food', -3, 10)])",
            "value_by_group([('', -4, 3), ('food', 12, 1)])",
            "value_by_group([('Tools', -3, 2), ('', 9, 2)])",
            "value_by_group([('Toys', 2, 3), ('food', 4, 1)])",
            "value_by_group([('', 14, 3), ('TOYS', 15, 1)])",
            "value_by_group([('TOYS', 1, 3), ('', 7, 3)])",
        ),
    ),
    Family(
        name="merge_counts",
        area="inventory",
        request="Two people counted parts of the warehouse. Put their two tables of item and count together into one.",
        signature="def merge_counts(first, second)",
        template="""
def merge_counts(first, second):
    merged = {}
    for item, count in list(first.items()) + list(second.items()):
        {blank}
        {letters}
        {negative}
        merged[item] = {both}
    {zero}
    return merged
""",
        topics=(
            reworded(
                blanks("item", ("skip",)),
                "A blank item is kept like any other.",
                "Skip items with a blank name.",
            ),
            reworded(
                letters("item"),
                "Leave the letters as they are, Lamp and LAMP are two items.",
                "Write items in small letters; those that become the same are one item counted more than once.",
                "Write items in capital letters; those that become the same are one item counted more than once.",
            ),
            reworded(
                negatives("count", ("skip", "plus")),
                "Negative counts are taken as they are.",
                "Skip negative counts as if they were not in the table.",
                "Make each negative count positive before counts of one item are combined.",
            ),
            Topic(
                "both",
                ("What if both counted the same item?", "How do I combine two counts of one item?"),
                (
                    Option("Add up all counts of one item.", {"both": "merged.get(item, 0) + count"}),
                    Option("Keep only the largest count of one item.", {"both": "max(merged.get(item, count), count)"}),
                    Option(
                        "A later count replaces an earlier one; the second table is later than the first.",
                        {"both": "count"},
                    ),
                ),
            ),
            Topic(
                "zero",
                ("Should entries of zero be listed?", "What about entries where the number is zero?"),
                (
                    Option("Items with a count of zero stay in.", {}),
                    Option(
                        "Leave out items whose final count is zero.",
                        {"zero": "merged = {item: count for item, count in merged.items() if count != 0}"},
                    ),
                ),
            ),
        ),
        calls=(
            "merge_counts({'tea': -7, 'rope': 8, 'LAMP': -4}, {'rope': 14, 'soap': 0, '': 6})",
            "merge_counts({'soap': 13, 'Lamp': -5, '': 17}, {'soap': 0, 'rope': -2, 'Lamp': 1})",
            "merge_counts({'rope': 4, 'tea': 0}, {'ROPE': 6, 'rope': 0, 'soap': -6})",
            "merge_counts({'soap': -6, 'Lamp': 12, 'rope': 0}, {'': 7, 'LAMP': 0})",
            "merge_counts({'Lamp': 11, '': 2}, {'': 0, 'tea': 0, 'Lamp': 2})",
            "merge_counts({'rope': 9, 'Tea': 3}, {'rope': 7, '': 14, 'ROPE': -2})",
            "merge_counts({'Soap': -2, '': 11, 'rope': 0}, {'': 8})",
            "merge_counts({'tea': 3}, {'soap': -2, 'tea': 1})",
            "merge_counts({'Lamp': 0}, {'': 2})",
            "merge_counts({'tea': 14}, {'tea': 1})",
        ),
    ),
    Family(
        name="expiry_loss",
        area="inventory",
        request="I want to know the total cost of goods past their date. Each batch has its last good day, "
        "the number of pieces and the cost of one piece; all days, today too, are day numbers.",
        signature="def expiry_loss(batches, today)",
        template="""
def expiry_loss(batches, today):
    loss = 0
    for day, count, cost in batches:
        {negative}
        value = count * cost
        {half}
        if day {expired}:
            loss += value
    {rounding}
    {cap}
    return loss
""",
        topics=(
            reworded(
                negatives("count", ("skip", "plus")),
                "A negative number of pieces counts as it is and lowers the total cost.",
                "Skip batches with a negative number of pieces.",
                "Count a negative number of pieces as positive.",
            ),
            Topic(
                "half",
                ("Do we get any money back for such goods?", "Is the whole cost lost?"),
                (
                    Option("The whole cost of every batch is lost.", {}),
                    Option(
                        "Count only half the cost of a batch that has more than 10 pieces.",
                        {"half": "if count > 10:\n    value = value / 2"},
                    ),
                ),
            ),
            Topic(
                "expired",
                ("Do goods count on their last day already?", "When exactly does a batch count as expired?"),
                (
                    Option("A batch counts from the day after its last good day.", {"expired": "< today"}),
                    Option("A batch counts on its last good day already.", {"expired": "<= today"}),
                    Option("A batch counts already from 3 days before its last good day on.", {"expired": "<= today + 3"}),
                ),
            ),
            reworded(
                rounding("loss", ("tenths", "down")),
                "No rounding, give the exact total.",
                "Round the total cost to one decimal.",
                "Round the total cost down to a whole number, so that -1.5 becomes -2.",
            ),
            reworded(
                cap("loss", (100,)),
                "There is no upper limit.",
                "The total cost is never above 100; a higher one becomes 100.",
            ),
        ),
        calls=(
            "expiry_loss([(48, -13, 3.4), (46, 24, 1.25), (50, 2, 7.77), (50, 6, 2)], 50)",
            "expiry_loss([(100, 13, 5), (102, -23, 2), (97, 22, 7.77), (92, -1, 10)], 100)",
            "expiry_loss([(100, 4, 5), (101, 19, 5), (103, -25, 7.77), (91, -7, 7.77)], 100)",
            "expiry_loss([(23, 18, 3.4), (33, 25, 5), (30, 1, 5)], 30)",
            "expiry_loss([(30, -4, 3.4), (21, -15, 7.77), (27, 28, 7.77), (32, -5, 3.4)], 30)",
            "expiry_loss([(24, 10, 7.77), (29, -8, 2)], 30)",
            "expiry_loss([(3, 23, 10), (13, 17, 2)], 12)",
            "expiry_loss([(15, 16, 1.25), (6, 7, 7.77)], 12)",
            "expiry_loss([(94, 9, 7.77), (91, 27, 5)], 100)",
            "expiry_loss([(6, 12, 2), (13, -26, 5), (7, -1, 10)], 12)",
        ),
    ),
)
