package content

// Bound sets a limit for reading the body, usually of processor time. Whatever extracts text calls
// stop now and then, after some KiB. Once it returns true, reading ends at once and for good: the
// followers have the text so far, [Body.Read] returns an error, and [Body.Unread] is
// [TookTooLong]. Set it anew for each judgement; nil means no limit.
func (b *Body) Bound(stop func() bool) {
	b.bound.AskStop(stop)
}
