//! What the relay knows about kinds.

/// Kinds a client may not submit because the relay alone signs them.
pub(crate) const fn is_relay_only(kind: u32) -> bool {
    matches!(
        kind,
        8000..=8003
            | 13_534
            | 13_535
            | 30_622
            | 39_000..=39_006
            | 40_099
            | 40_901
            | 40_902
    )
}

/// Kinds a client may submit.
pub(crate) const fn is_known(kind: u32) -> bool {
    matches!(
        kind,
        0..=3
            | 5
            | 7
            | 9
            | 1059
            | 1617..=1619
            | 1621
            | 1630..=1633
            | 1984
            | 9000..=9002
            | 9005
            | 9007
            | 9008
            | 9021
            | 9022
            | 10_000..=10_003
            | 10_030
            | 10_100
            | 20_001
            | 20_002
            | 24_134
            | 24_200
            | 24_242
            | 24_243
            | 24_810
            | 28_936
            | 30_000
            | 30_003
            | 30_023
            | 30_030
            | 30_078
            | 30_174..=30_179
            | 30_300
            | 30_315
            | 30_350
            | 30_617
            | 30_618
            | 30_621
            | 40_002..=40_008
            | 40_100
            | 44_200
            | 45_001..=45_003
            | 48_100..=48_103
            | 48_106
    )
}

/// Kinds that belong to a channel named by an `h` tag.
pub(crate) const fn needs_channel(kind: u32) -> bool {
    matches!(
        kind,
        9 | 9000..=9002
            | 9005
            | 9008
            | 9021
            | 9022
            | 20_002
            | 24_810
            | 40_002..=40_008
            | 40_100
            | 45_001..=45_003
            | 48_100..=48_103
            | 48_106
    )
}

/// Kinds whose `e` tags place them in a thread.
pub(crate) const fn is_threaded(kind: u32) -> bool {
    matches!(kind, 9 | 40_002 | 45_003)
}

/// Kinds readable only through a filter that names the reader in `#p`.
pub(crate) const P_GATED: [u32; 6] = [24_200, 44_100, 44_101, 1059, 30_622, 44_200];

/// P-gated kinds that even a lookup by id does not open.
pub(crate) const P_GATED_BY_ID: [u32; 2] = [30_622, 44_200];

/// Kinds readable by their author only.
pub(crate) const AUTHOR_ONLY: [u32; 3] = [30_300, 30_350, 30_179];

/// An agent's memory record.
pub(crate) const ENGRAM: u32 = 30_174;
