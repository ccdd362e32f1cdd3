#pragma once

namespace reference {

// Counts the cores that affinity and the control group's quota leave to this process, at least one.
// A quota of one and a half cores counts as two.
int usable_cores();

}  // namespace reference
