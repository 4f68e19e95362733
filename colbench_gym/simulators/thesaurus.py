"""Words that people use for the same thing, by which a question meets phrases that share no word with it.

A line is one idea. A word may belong to several ideas; a match through an idea counts less than the word itself.
"""

from __future__ import annotations

from colbench_gym.simulators.wording import stems

_IDEAS = """
round rounding rounded decimal decimals precision precise digits cent cents penny pennies fraction fractional whole integer truncate nearest exact float half quarter
maximum max limit limited cap capped ceiling upper highest most exceed beyond above bound unlimited restrict top
minimum min floor lowest least smallest lower bottom below under bound
empty blank nothing none missing absent null void vacant without unfilled omitted lack
error errors exception raise fail invalid bad wrong malformed faulty corrupt broken garbage nonsense incorrect
order ordered sort sorted sorting arrange arranged sequence ascending descending alphabetical alphabetically alphabet rank ranking chronological
capital capitals capitalise capitalize capitalization uppercase lowercase case caps letters small insensitive sensitive
duplicate duplicates repeated repeat repeats twice double doubles again several unique distinct recur recurring dedupe multiple same
negative minus below subtract subtracted debit deficit
zero zeros 0 nought nil
percent percentage rate share proportion
tie ties tied equal same draw level identical
discount rebate reduction reduced cheaper off markdown deal bargain bulk volume
shipping delivery postage freight deliver ship shipment courier transport
refund refunds return returned returns sendback credited credit reimbursed
surcharge supplement extra additional additionally premium markup top
fee fees charge charged charges cost costs price priced pay pays paid payment owe owed bill
free gratis complimentary waived waive waiver exempt exempted exemption
grace late lateness overdue tolerance leeway delay delayed behind deadline
break breaks pause pauses lunch rest interval recess
night midnight overnight evening next-day cross crossing
weekend weekends saturday sunday holiday holidays weekday workday
safety buffer spare reserve margin extra cushion slack headroom
pack packs package bundle bundles box boxes carton case crate multiple multiples batch batches
skip skipped ignore ignored drop dropped exclude excluded omit leave remove removed discard discarded filter strip disregard delete
include included keep kept stay retain remain count
length long longer longest characters chars letters truncate truncated cut shorten shortened abbreviate abbreviated trim fit
short shorter shortest brief tiny
many number limit first few top count rows entries amount
comma commas separator separators separate separated delimiter dash hyphen semicolon slash join joined between underscore
sign signs punctuation symbol symbols mark marks dot dots hash exclamation special apostrophe
space spaces blank blanks whitespace gap gaps trim
title titles honorific honorifics salutation mr mrs ms dr prof doctor
surname lastname family last forename firstname given middle
email emails e-mail mail address addresses
customer customers client clients buyer patron member members user users person people
name names named label labels called
old older age aged young ancient outdated expired stale previous former
recent recently latest newest current last
threshold boundary cutoff border exactly inclusive borderline edge
bonus extra reward perk gift prize
average mean typical
outlier outliers spike spikes extreme extremes unusual peak glitch implausible suspicious odd
best highest top greatest largest biggest winner maximum
worst lowest weakest smallest minimum poorest
small smaller tiny little low minor petty
large larger big bigger huge great heavy high bulk
heavy heavier heaviest weight weigh kilo kilos kg kilogram overweight
table dictionary dict mapping map lookup
tuple pair pairs list array string text integer int float number type format structure shape
position place rank numbering numbered index
show display shown print printed visible appear appears listed
merge combine combined join joined sum add added together total aggregate
split share divide divided portion equally
currency euro euros dollar dollars money
time times hour hours minute minutes day days date dates
start starts begin begins beginning opening initial first
end ends finish final last closing finishing
previous carried carry opening balance initial
unknown unrecognised unlisted unfamiliar unexpected other
cheap cheaper expensive dear dearer costly
tax taxes vat duty
fixed flat base basic standing
penalty fine punish deduct deduction deducted subtract minus
tip gratuity service
rare seldom infrequent once uncommon
country prefix international area code
fill pad padding padded align aligned
bracket brackets parenthesis parentheses
thousand thousands
staff internal test employee employees dummy fake
hide mask masked conceal reveal readable visible secret
reset restart rollover replaced overflow
leak leakage waste lose loss
steady same unchanged still constant flat idle
correction offset calibrate calibration adjust adjustment bias
window moving recent latest
partial partially partly part incomplete some
back reverse reversed backwards return
enough sufficient insufficient suffice short shortage
fit fits suitable room capacity
"""

IDEAS_OF: dict[str, tuple[int, ...]] = {}
for _number, _line in enumerate(_IDEAS.strip().splitlines()):
    for _stem in set(stems(_line)):
        IDEAS_OF[_stem] = (*IDEAS_OF.get(_stem, ()), _number)
