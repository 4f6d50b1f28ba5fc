package filter

// Changes are what lists want changed in an HTML page on its way to the client.
// Their storage is used again.
type Changes struct {
	Style  []byte // CSS for the head of the page; nothing in it ends a style element
	Script []byte // JavaScript that runs before the page's own; nothing in it ends a script element
	// Sheet is the path, on the page's own host, of one more style sheet, "" for
	// none. Browsers keep it; see [Editor].
	Sheet       string
	Policies    []string // values of further Content-Security-Policy fields
	Permissions []string // values of further Permissions-Policy fields

	Hidden     int      // rules for this site that hide elements
	Scriptlets []string // scriptlets that Script runs, as their rules name them
}

// Reset empties c and keeps its storage.
func (c *Changes) Reset() {
	*c = Changes{Style: c.Style[:0], Script: c.Script[:0], Policies: c.Policies[:0], Permissions: c.Permissions[:0], Scriptlets: c.Scriptlets[:0]}
}

// Empty says that nothing is to be changed.
func (c *Changes) Empty() bool {
	return len(c.Style) == 0 && len(c.Script) == 0 && c.Sheet == "" && len(c.Policies) == 0 && len(c.Permissions) == 0
}

// An Editor changes HTML pages. A [Decider] whose policies do that is one, and
// so is a [Check] that knows what to change.
type Editor interface {
	// Changes puts into dst what is to be changed in the page that t asks for,
	// whose request is known, and says whether there is anything.
	Changes(t *Transaction, dst *Changes) bool
	// Sheet returns the style sheet that t asks for, when its path is that of
	// one, and whether it is compressed: gzip says that it may be.
	Sheet(t *Transaction, gzip bool) (css []byte, zipped, ok bool)
}
