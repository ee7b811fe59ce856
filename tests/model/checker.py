"""Says whether a refusal is right, without knowing how schemasync decides.

What it has: the inputs that the publisher accepted since both sides were last found equal, each with the reasons that a
refusal of such a command may have, and the refusal.
"""


def allowed_reasons(inputs):
    reasons = set()
    for i in inputs:
        reasons |= set(i.may)
    traits = set().union(*(set(i.traits) for i in inputs)) if inputs else set()
    # a rewrite throws the values away that a stable default gave to the rows, when both are in one transaction
    if {"stable", "rewrite"} <= traits:
        reasons.add("default_unreadable")
    return reasons


# what rewrites = carry is there for
CARRIED = {"volatile_default", "type_change_unproven", "rewrite_unproven", "default_unreadable"}


def judge(inputs, reason, carry=False):
    """None when the refusal is right, else what is wrong with it. carry: the subscription carries rewrites."""
    allowed = allowed_reasons(inputs) - (CARRIED if carry else set())
    if reason in allowed:
        return None
    return "refused with %s, where %s" % (
        reason, "only %s would be right" % ", ".join(sorted(allowed)) if allowed else "nothing may be refused")
