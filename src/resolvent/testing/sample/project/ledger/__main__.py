"""Print the cents of each amount given."""

import sys

from ledger.money import format_amount, parse_amount

for argument in sys.argv[1:]:
    print(format_amount(parse_amount(argument)))
