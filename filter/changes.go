package filter

// Changes are the changes that lists make to an HTML page on its way to the client. Their
// memory is reused.
type Changes struct {
	Style  []byte // CSS for the head of the page; it never ends a style element
	Script []byte // JavaScript that runs before the page's own; it never ends a script element
	// Sheet is the path, on the page's own host, of an additional style sheet, "" for none.
	// Browsers cache it; see [Editor].
	Sheet       string
	Policies    []string // values of additional Content-Security-Policy fields
	Permissions []string // values of additional Permissions-Policy fields

	Hidden     int      // rules for this site that hide elements
	Scriptlets []string // scriptlets that Script runs, as their rules name them
}

// Reset empties c and keeps its memory.
func (c *Changes) Reset() {
	*c = Changes{Style: c.Style[:0], Script: c.Script[:0], Policies: c.Policies[:0], Permissions: c.Permissions[:0], Scriptlets: c.Scriptlets[:0]}
}

// Empty reports that there is nothing to change.
func (c *Changes) Empty() bool {
	return len(c.Style) == 0 && len(c.Script) == 0 && c.Sheet == "" && len(c.Policies) == 0 && len(c.Permissions) == 0
}

// An Editor changes HTML pages. A [Decider] whose policies do that is one, and so is a [Check]
// that knows the changes.
type Editor interface {
	// Changes puts into dst the changes to the page that the request of t asks for, and reports
	// whether there are any.
	Changes(t *Transaction, dst *Changes) bool
	// Sheet returns the style sheet that t asks for, if its path names one, and whether the
	// sheet is compressed, which it is only if gzip is true.
	Sheet(t *Transaction, gzip bool) (css []byte, zipped, ok bool)
}
