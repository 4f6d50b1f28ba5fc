package event

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"os"
	"slices"
	"strings"

	"shuultuur/lib/ascii"
	"shuultuur/lib/atomicfile"
)

// A Person is the subject of rows that can be exported and erased: names of
// users, and addresses of devices that only this person uses.
type Person struct {
	Users   []string
	Clients []netip.Addr
}

// Empty reports whether the person has neither names nor addresses.
func (p *Person) Empty() bool { return len(p.Users)+len(p.Clients) == 0 }

// Of reports whether a row is about the person.
func (p *Person) Of(r *Row) bool {
	return r.User != "" && slices.Contains(p.Users, r.User) || r.Client.IsValid() && slices.Contains(p.Clients, r.Client)
}

// In reports whether a text names the person: a user or an address, as a whole
// word.
func (p *Person) In(text string) bool {
	for _, u := range p.Users {
		if u != "" && hasWord(text, u) {
			return true
		}
	}
	for _, a := range p.Clients {
		if hasWord(text, a.String()) {
			return true
		}
	}
	return false
}

// hasWord reports whether text contains word as a whole word. A dot or colon that is followed
// by more continues a word: 10.0.0.1.5 does not contain 10.0.0.1, nor anna.example anna.
func hasWord(text, word string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		i += at
		before, after := text[:i], text[i+len(word):]
		if !goesOn(lastByte(before), lastByte(strings.TrimRight(before, ".:"))) && !goesOn(firstByte(after), firstByte(strings.TrimLeft(after, ".:"))) {
			return true
		}
		at = i + 1
	}
}

func firstByte(s string) byte { return append([]byte(s[:min(len(s), 1)]), 0)[0] }

func lastByte(s string) byte { return append([]byte(s[max(0, len(s)-1):]), 0)[0] }

// goesOn reports whether a word continues with the byte at, or with the byte beyond after a
// dot. A colon alone ends a word that is the name of a field, as in user:anna.
func goesOn(at, beyond byte) bool {
	letter := func(c byte) bool {
		return '0' <= c && c <= '9' || 'a' <= ascii.Lower(c) && ascii.Lower(c) <= 'z' || c == '_' || c >= 0x80
	}
	return letter(at) || at == '.' && letter(beyond)
}

// Rows returns the rows about the person, each once.
func (p *Person) Rows(ctx context.Context, r Reader) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		var asks []Filter
		ask := func(by Field, values ...string) error {
			var f Filter
			err := f.And(by, false, values...)
			asks = append(asks, f)
			return err
		}
		var err error
		if len(p.Users) > 0 {
			err = ask(User, p.Users...)
		}
		for _, a := range p.Clients {
			err = errors.Join(err, ask(Client, a.String()))
		}
		if err != nil {
			yield(Row{}, err)
			return
		}
		for i, f := range asks {
			for row, err := range r.Query(ctx, f, Page{}) {
				earlier := func(f Filter) bool { return f.Match(&row) }
				if err == nil && slices.ContainsFunc(asks[:i], earlier) {
					continue
				}
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// Count returns the number of rows about the person.
func (p *Person) Count(ctx context.Context, r Reader) (n int64, err error) {
	for _, err := range p.Rows(ctx, r) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// An Eraser is a store that can erase the rows of a person.
type Eraser interface {
	// Erase removes all rows of a person, and their bytes from the disk, and
	// returns their number. With dry it only counts them.
	Erase(ctx context.Context, p Person, dry bool) (rows int64, err error)
}

// Erase removes the lines that name a person.
func (l *File) Erase(ctx context.Context, p Person, dry bool) (int64, error) {
	return l.EraseLines(ctx, func(line []byte) bool { return p.In(string(line)) }, dry)
}

// EraseLines removes the lines that match; with dry it only counts them. It does not
// touch rotated files.
func (l *File) EraseLines(ctx context.Context, match func(line []byte) bool, dry bool) (n int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	st, err := l.f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return 0, err
	}
	in, err := os.Open(l.path)
	if err != nil {
		return 0, fmt.Errorf("erase from event log: %w", err)
	}
	defer in.Close()
	to := func(out io.Writer) error {
		r, w := bufio.NewReaderSize(in, 1<<16), bufio.NewWriterSize(out, 1<<16)
		for {
			if err := ctx.Err(); err != nil {
				return err
			}
			line, err := r.ReadBytes('\n')
			if len(line) > 0 {
				if match(bytes.TrimRight(line, "\n")) {
					n++
				} else if _, err := w.Write(line); err != nil {
					return err
				}
			}
			if errors.Is(err, io.EOF) {
				return w.Flush()
			}
			if err != nil {
				return err
			}
		}
	}
	if dry {
		err = to(io.Discard)
	} else {
		err = atomicfile.Write(l.path, st.Mode().Perm(), func(out *os.File) error { return to(out) })
	}
	if err != nil {
		return 0, fmt.Errorf("erase from event log %q: %w", l.path, err)
	}
	if dry {
		return n, nil
	}
	f, _, err := l.open(l.path)
	if err != nil {
		return n, err
	}
	old := l.f
	l.f = f
	return n, old.Close()
}
