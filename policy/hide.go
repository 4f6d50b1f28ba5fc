package policy

import "shuultuur/filter"

// Changes puts into dst the changes to the page that t asks for: nothing unless the client's
// policy says hide, and nothing where a rule allows the page or filtering is paused.
func (e *Engine) Changes(t *filter.Transaction, dst *filter.Changes) bool {
	editor := e.editor(t)
	return editor != nil && t.Verdict.Action != filter.Allow && editor.Changes(t, dst)
}

// Sheet returns the style sheet that t asks for, when its path names one and the client's
// policy says hide.
func (e *Engine) Sheet(t *filter.Transaction, gzip bool) (css []byte, zipped, ok bool) {
	if editor := e.editor(t); editor != nil {
		return editor.Sheet(t, gzip)
	}
	return nil, false, false
}

// editor returns the check that changes pages for t's client, nil when there is none.
func (e *Engine) editor(t *filter.Transaction) filter.Editor {
	now := timeOf(t)
	if p := e.policyFor(&t.Client, now); p == nil || !p.hide || e.pauses.remaining(&t.Client, now) > 0 {
		return nil
	}
	for _, c := range e.checks {
		if editor, ok := c.(filter.Editor); ok {
			return editor
		}
	}
	return nil
}
