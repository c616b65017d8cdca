"""The owner of a group of users. Many systems give each user a group of their own, which may write to their folders.

is_own_group(os.stat(folder).st_gid)        True: that the group may write there lets nobody else in
"""

from __future__ import annotations

import grp
import os
import pwd


def is_own_group(number: int) -> bool:
    """Whether a group is ours alone: it has our name, it is our first one, and it has no other members."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return user.pw_gid == number and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
