package engine

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"fmt"
	"strings"

	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
)

// condition tests a condition that does not concern one buffer.
func (w *work) condition(x rule.Condition, at rule.Progress) answer {
	tx := w.tx
	src, dst := tx.ends(w.dir)
	switch x := x.(type) {
	case *rule.Bit:
		for _, name := range x.Names {
			ok := false
			if x.Kind == "flow" || x.Track == "tx" {
				ok = tx.Flow.Bit(x.Command, bitName(x, name, tx))
			} else {
				ok = w.e.state.Bit(x, name, src.Addr(), dst.Addr(), tx.Now)
			}
			if ok && x.Command == "isset" {
				return yes
			}
			if !ok && x.Command == "isnotset" {
				return no
			}
		}
		return answerOf(x.Command == "isnotset")
	case *rule.Int:
		return answerOf(flowInt(tx.Flow, x))
	case *rule.Var:
		v, ok := tx.Flow.Var(x.Name)
		return answerOf(ok && bytes.Contains(v, x.Value) != x.Negated)
	case *rule.Integer:
		return w.integer(x, at)
	case *rule.Event:
		if tx.Source.Event(x.Kind, x.Name) != x.Negated {
			return yes
		}
		if tx.dir[1-w.dir>>1].at < rule.Complete && !x.Negated {
			return later // the other side may send it
		}
		return notYet(at)
	case *rule.Word:
		return w.word(x, at)
	case *digestMatcher:
		return w.hashed(x, at)
	case *rule.Lua:
		w.in.Work += scriptWork
		return answerOf(w.script(x, nil, 0))
	}
	return yes
}

func bitName(b *rule.Bit, name string, tx *Tx) string {
	if b.Kind == "x" {
		return fmt.Sprintf("tx %p %s", tx, name)
	}
	return name
}

func answerOf(ok bool) answer {
	if ok {
		return yes
	}
	return no
}

// notYet returns later, or no if nothing more will come.
func notYet(at rule.Progress) answer {
	if at >= rule.Complete {
		return no
	}
	return later
}

func flowInt(f *state.Flow, x *rule.Int) bool {
	v, ok := f.Int(x.Name)
	switch x.Op {
	case "isset":
		return ok
	case "isnotset", "notset":
		return !ok
	}
	other := x.Value
	if x.Var != "" {
		o, known := f.Int(x.Var)
		if !known {
			return false
		}
		other = o
	}
	if !ok {
		return false
	}
	switch x.Op {
	case "==":
		return v == other
	case "!=":
		return v != other
	case "<":
		return v < other
	case ">":
		return v > other
	case "<=":
		return v <= other
	case ">=":
		return v >= other
	}
	return false
}

// integer tests a keyword that compares one or several numbers.
func (w *work) integer(x *rule.Integer, at rule.Progress) answer {
	name := x.Keyword
	var ns []uint64
	ok := true
	switch name {
	case "urilen", "urilen.raw":
		b := rule.URI
		if name == "urilen.raw" {
			b = rule.URIRaw
		}
		buf := w.buffer(rule.ToServer, b, 0, 0)
		ns, ok = []uint64{uint64(len(buf.data))}, buf.ok
	case "filesize":
		for _, f := range w.tx.Source.Files(w.dir) {
			if f.Complete || (x.Op == ">" || x.Op == ">=") && x.Match(uint64(f.Size)) {
				ns = append(ns, uint64(f.Size))
			}
		}
		ok = len(ns) > 0
	default:
		ns, ok = w.tx.Source.Numbers(w.dir, name)
	}
	if !ok || len(ns) == 0 {
		switch {
		case x.Index == "count":
			return answerOf(x.Count.Match(0))
		case x.Absent, x.OrAbsent && len(ns) == 0, x.Index == "all_or_absent":
			return yes
		}
		return notYet(at)
	}
	if strings.HasPrefix(x.Index, "all") && at < rule.Complete {
		return later // another may follow
	}
	if x.Absent {
		return no
	}
	if applyIndex(x, ns) {
		return yes
	}
	return notYet(at)
}

// applyIndex applies the index of an integer keyword.
func applyIndex(x *rule.Integer, ns []uint64) bool {
	count := x.Count
	if op, ok := strings.CutSuffix(count.Op, "|slice"); ok {
		from, to := x.Position, int(int64(count.B))
		if from < 0 {
			from += len(ns)
		}
		if to <= 0 {
			to += len(ns)
		}
		count.Op, count.B = op, 0
		if from < 0 || from > len(ns) || to > len(ns) || from > to {
			return false
		}
		ns = ns[from:to]
	}
	good := 0
	for _, n := range ns {
		if x.Match(n) {
			good++
		}
	}
	switch x.Index {
	case "all", "all1", "all_or_absent":
		return good == len(ns)
	case "nb":
		return count.Match(uint64(good))
	case "count":
		return count.Match(uint64(len(ns)))
	case "at":
		i := x.Position
		if i < 0 {
			i += len(ns)
		}
		if i < 0 || i >= len(ns) {
			return x.OrAbsent
		}
		return x.Match(ns[i])
	}
	return good > 0
}

// word tests a keyword with words. Those about files are tested here.
func (w *work) word(x *rule.Word, at rule.Progress) answer {
	switch x.Keyword {
	case "filename", "fileext", "filemagic":
	default:
		if w.tx.Source.Word(w.dir, x.Keyword, x.Value) != x.Negated {
			return yes
		}
		return notYet(at)
	}
	want := strings.ToLower(x.Value)
	for _, f := range w.tx.Source.Files(w.dir) {
		name := strings.ToLower(f.Name)
		ok := false
		switch x.Keyword {
		case "filename":
			ok = strings.Contains(name, want)
		case "fileext":
			ok = strings.HasSuffix(name, "."+want)
		case "filemagic":
			magic := f.Magic()
			if magic == "" {
				continue
			}
			ok = strings.Contains(strings.ToLower(magic), want)
		}
		if ok != x.Negated {
			return yes
		}
	}
	return notYet(at)
}

// A digestMatcher is a keyword filemd5, filesha1 or filesha256 with its list.
type digestMatcher struct {
	*rule.Word
	set map[string]struct{}
}

func (w *work) hashed(x *digestMatcher, at rule.Progress) answer {
	seen := false
	for _, f := range w.tx.Source.Files(w.dir) {
		if !f.Complete || int64(len(f.Data)) != f.Size {
			continue
		}
		seen = true
		sum := ""
		switch x.Keyword {
		case "filemd5":
			sum = fmt.Sprintf("%x", md5.Sum(f.Data))
		case "filesha1":
			sum = fmt.Sprintf("%x", sha1.Sum(f.Data))
		default:
			sum = fmt.Sprintf("%x", sha256.Sum256(f.Data))
		}
		if _, ok := x.set[sum]; ok != x.Negated {
			return yes
		}
	}
	if seen {
		return no
	}
	return notYet(at)
}
