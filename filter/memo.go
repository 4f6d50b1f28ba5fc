package filter

import "slices"

// A Memo keeps what checks found in a transaction, for a second decider that judges the same
// transaction with some of the same checks, such as that of changed settings. The zero value is
// ready. It is not safe for concurrent use.
type Memo struct {
	client Client
	all    []memorised
}

// memorised are the findings of a check at a stage.
type memorised struct {
	check Check
	stage Stage
	old   []Finding // what was found before
	found []Finding
}

// Forget makes the memo ready for another transaction.
func (m *Memo) Forget() { m.all = m.all[:0] }

// Use has the transaction keep its findings in m.
func (t *Transaction) Use(m *Memo) { t.described.memo = m }

// Memorise keeps what c found at stage s: the findings but for the first n. A [Contextual] check is
// asked each time.
func (t *Transaction) Memorise(c Check, s Stage, n int) {
	m := t.described.memo
	if m == nil {
		return
	}
	if _, ok := c.(Contextual); !ok {
		m.client = t.Client
		m.all = append(m.all, memorised{c, s, t.Findings[:n:n], t.Findings[n:len(t.Findings):len(t.Findings)]})
	}
}

// Recall returns what c found at stage s for the same client and after the same findings.
func (t *Transaction) Recall(c Check, s Stage) (found []Finding, ok bool) {
	m := t.described.memo
	if m == nil {
		return nil, false
	}
	for i := range m.all {
		if x := &m.all[i]; x.stage == s && x.check == c {
			ok = m.client.Addr == t.Client.Addr && m.client.User == t.Client.User && slices.Equal(m.client.Groups, t.Client.Groups) && slices.Equal(x.old, t.Findings)
			return x.found, ok
		}
	}
	return nil, false
}
