"""The kinds of lost prefixes, a file for each group of them, in the order in which a pair of requests is asked.

What is told by a body's structure comes before what is told by a text: tools in another order differ as texts, too.
"""

from warmroute.doctor.kinds import addresses, forms, histories, namespaces, orders, template_dates, volatile
from warmroute.doctor.suspect import KindGroup

KINDS: tuple[KindGroup, ...] = (
    namespaces.GROUP,
    template_dates.GROUP,
    histories.GROUP,
    forms.GROUP,
    orders.GROUP,
    addresses.GROUP,
    volatile.GROUP,
)
