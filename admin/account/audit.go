package account

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/ingest"
	"shuultuur/lib/platform"
)

// An Entry is one line of the audit log: who did what.
//
// Details may name a person whose data was seen, or contain the text that was
// entered. The chain covers only a salted digest of them. So they can be erased
// when the law requires it, and the chain remains valid.
type Entry struct {
	Seq    int64     `json:"seq"`
	Time   time.Time `json:"time"`
	By     string    `json:"by"`
	Role   Role      `json:"role"`
	Via    string    `json:"via"`
	From   string    `json:"from"`
	Action string    `json:"action"` // "POST /pause", "look", "sign in"
	Status int       `json:"status,omitempty"`
	Digest string    `json:"digest,omitempty"` // of salt and details
	Prev   string    `json:"prev"`             // hash of the previous entry
	Hash   string    `json:"hash"`             // hash of all the above

	Salt    string `json:"salt,omitempty"`
	Details string `json:"details,omitempty"`
	Erased  string `json:"erased,omitempty"` // when the details were erased
}

const (
	maxDetails = 4096
	maxEntry   = 64 << 10 // most bytes of a line
	auditFile  = "audit.jsonl"
	headFile   = "audit.head"
)

// sum returns the hash of an entry.
func (e *Entry) sum() string {
	c := *e
	c.Hash, c.Salt, c.Details, c.Erased = "", "", "", ""
	text, _ := json.Marshal(c) // cannot fail: an entry has only texts, numbers and a time
	h := sha256.Sum256(text)
	return hex.EncodeToString(h[:])
}

// A head is the last entry, kept beside the log, so that a cut off end is noticed.
type head struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// A Log is the audit log in a folder. Several processes may add to it.
type Log struct {
	dir    string
	now    func() time.Time
	adding ingest.Group[Entry] // actions in progress share a write
	mu     sync.Mutex
	fail   error // error of the last entry
}

// NewLog returns the audit log in a folder of accounts.
func NewLog(dir string) *Log { return &Log{dir: dir, now: time.Now} }

// Add appends an entry, whose time, place and digests it sets. When it returns, the entry is on
// disk. Entries that arrive at the same time share a write.
func (l *Log) Add(e Entry) error {
	return l.adding.Do(e, func(all []Entry, errs []error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fail = l.add(all)
		for n := range errs {
			errs[n] = l.fail
		}
	})
}

// Problem returns the error of the last entry, or else that the end of the log is missing, or nil.
func (l *Log) Problem() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return fmt.Errorf("changes on the pages are refused while they cannot be recorded: %w", l.fail)
	}
	h, err := l.readHead() // before the log, which may grow meanwhile
	if err != nil {
		return err
	}
	last, err := l.last(false)
	if err == nil && last.Seq < h.Seq {
		err = fmt.Errorf("the audit log %s ends with entry %d, and entry %d was its last", filepath.Join(l.dir, auditFile), last.Seq, h.Seq)
	}
	return err
}

func (l *Log) add(all []Entry) error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	unlock, err := platform.LockPath(filepath.Join(l.dir, "audit.lock"), 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	defer unlock()
	last, err := l.head()
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	var lines []byte
	for _, e := range all {
		e.Seq, e.Prev, e.Time = last.Seq+1, last.Hash, l.now().UTC().Truncate(time.Millisecond)
		e.By, e.From, e.Action = clean(e.By, 200), clean(e.From, 100), clean(e.Action, 300)
		if e.Details = clean(e.Details, maxDetails); e.Details != "" {
			e.Salt = random(16)
			e.Digest = digest(e.Salt + e.Details)
		}
		e.Hash = e.sum()
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
		lines = append(append(lines, line...), '\n')
		last = head{e.Seq, e.Hash}
	}
	f, err := os.OpenFile(filepath.Join(l.dir, auditFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	_, err = f.Write(lines)
	if err = errors.Join(err, atomicfile.Sync(f), f.Close()); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	err = l.keepHead(last)
	giveToOwner(l.dir, "", auditFile, headFile, "audit.lock")
	return err
}

// clean returns a text as valid UTF-8 of limited length.
func clean(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(s, "�")
}

func (l *Log) keepHead(h head) error {
	text, err := json.Marshal(h)
	if err == nil {
		err = atomicfile.WriteBytes(filepath.Join(l.dir, headFile), 0o600, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}

// readHead returns what is kept beside the log, a zero head if nothing is.
func (l *Log) readHead() (h head, err error) {
	name := filepath.Join(l.dir, headFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err == nil && json.Unmarshal(text, &h) != nil {
		err = fmt.Errorf("%s: %w", name, errNoHead)
	}
	return h, err
}

var errNoHead = errors.New("it does not say what the last entry of the audit log is")

// head returns the last entry. A crash may have come between the writes of the log and its
// head. Then the log has some more entries, which follow from one another.
func (l *Log) head() (h head, err error) {
	h, err = l.readHead()
	if errors.Is(err, errNoHead) {
		h, err = head{}, atomicfile.SetAside(filepath.Join(l.dir, headFile))
	}
	if err != nil {
		return h, err
	}
	e, err := l.last(true)
	switch {
	case err != nil:
		return h, err
	case e.Seq > h.Seq:
		return l.followToEnd(h)
	case e.Seq < h.Seq: // the next entry shows the gap, and the copy when it was
		return h, atomicfile.CopyAside(filepath.Join(l.dir, auditFile))
	}
	return h, nil
}

// followToEnd follows the log from h to its end. It returns h if the log does not continue from
// there.
func (l *Log) followToEnd(h head) (head, error) {
	last, follows := h, true
	err := l.eachEntry(func(e *Entry, _ int, _ []byte, bad error) bool {
		switch {
		case bad == nil && e.Seq <= h.Seq:
		case bad != nil, e.Seq != last.Seq+1, e.Prev != last.Hash, e.Hash != e.sum():
			follows = false
		default:
			last = head{e.Seq, e.Hash}
		}
		return follows
	})
	if err != nil || !follows {
		return h, err
	}
	return last, nil
}

// last returns the last entry in the file, a zero one if there is none. With mend it removes an end
// that a crash has cut off.
func (l *Log) last(mend bool) (e Entry, err error) {
	name := filepath.Join(l.dir, auditFile)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err != nil {
		return e, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return e, err
	}
	from := max(0, info.Size()-maxEntry)
	tail := make([]byte, info.Size()-from)
	if _, err := io.ReadFull(io.NewSectionReader(f, from, int64(len(tail))), tail); err != nil {
		return e, err
	}
	n := bytes.LastIndexByte(tail, '\n') + 1
	if mend && n < len(tail) {
		if err := f.Truncate(from + int64(n)); err != nil {
			return e, err
		}
	}
	tail = bytes.TrimRight(tail[:n], "\n")
	if json.Unmarshal(tail[bytes.LastIndexByte(tail, '\n')+1:], &e) != nil {
		return Entry{}, nil // Verify reports it; new entries are appended after it
	}
	return e, nil
}

// A Verification is the result of checking the whole chain.
type Verification struct {
	Entries int64 `json:"entries"`
	Erased  int64 `json:"erased"` // entries without their details
	// Broken says where the chain does not hold, "" when it does.
	Broken string `json:"broken,omitempty"`
}

// Verify reads the whole log and reports whether anything in it was changed, removed, inserted
// or cut off.
func (l *Log) Verify() (v Verification, err error) {
	text, headless := os.ReadFile(filepath.Join(l.dir, headFile)) // read before the log, which may grow meanwhile
	var h, prev head
	if headless == nil && json.Unmarshal(text, &h) != nil {
		v.Broken = "the head is no entry"
		return v, nil
	}
	marked := map[int64]bool{} // erased entries that no entry lists yet
	err = l.eachEntry(func(e *Entry, line int, text []byte, bad error) bool {
		v.Entries++
		switch {
		case bad != nil:
			v.Broken = fmt.Sprintf("line %d is no entry: %v", line, bad)
		case e.Seq > prev.Seq+1:
			v.Broken = fmt.Sprintf("line %d is entry %d; entry %d is missing", line, e.Seq, prev.Seq+1)
		case e.Seq <= prev.Seq:
			v.Broken = fmt.Sprintf("line %d is entry %d, and follows entry %d: it was put there", line, e.Seq, prev.Seq)
		case e.Prev != prev.Hash:
			v.Broken = fmt.Sprintf("entry %d does not follow from the one before: one of them was replaced", e.Seq)
		case e.Hash != e.sum():
			v.Broken = fmt.Sprintf("entry %d was changed", e.Seq)
		case e.Seq == h.Seq && e.Hash != h.Hash:
			v.Broken = fmt.Sprintf("entry %d is not the one that was written", e.Seq)
		case e.Erased == "" && e.Digest != "" && digest(e.Salt+e.Details) != e.Digest, (e.Digest == "" || e.Erased != "") && e.Details+e.Salt != "":
			v.Broken = fmt.Sprintf("the details of entry %d were changed", e.Seq)
		default:
			if again, err := json.Marshal(e); err != nil || !bytes.Equal(again, text) {
				v.Broken = fmt.Sprintf("line %d holds something else besides entry %d, or is written otherwise", line, e.Seq)
			}
		}
		if e.Erased != "" {
			v.Erased++
			marked[e.Seq] = true
		}
		if e.Action == erasedDetails {
			for s := range strings.FieldsSeq(e.Details) {
				n, _ := strconv.ParseInt(s, 10, 64) // 0 means none
				delete(marked, n)
			}
		}
		prev = head{e.Seq, e.Hash}
		return v.Broken == ""
	})
	if err != nil || v.Broken != "" {
		return v, err
	}
	for n := range marked {
		v.Broken = fmt.Sprintf("the details of entry %d were removed, and no later entry says that they were erased", n)
		return v, nil
	}
	switch {
	case errors.Is(headless, fs.ErrNotExist) && v.Entries == 0:
		if _, err := os.Stat(filepath.Join(l.dir, "accounts.json")); err == nil {
			v.Broken = "the log and its head are missing, though there are accounts"
		}
	case headless != nil:
		v.Broken = fmt.Sprintf("the head is missing: %v", headless)
	case h.Seq > prev.Seq:
		v.Broken = fmt.Sprintf("the log ends with entry %d, and entry %d was the last: the end was cut off", prev.Seq, h.Seq)
	}
	return v, nil
}

// eachEntry calls f for each entry, until f returns false. For a line that is not an entry it
// passes an error.
func (l *Log) eachEntry(f func(e *Entry, line int, text []byte, bad error) bool) error {
	file, err := os.Open(filepath.Join(l.dir, auditFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	s.Buffer(nil, maxEntry)
	for n := 1; s.Scan(); n++ {
		e := &Entry{}
		bad := json.Unmarshal(s.Bytes(), e)
		if !f(e, n, s.Bytes(), bad) {
			return nil
		}
	}
	return s.Err()
}

// Entries returns the entries before one (0 for the newest), newest first, at most so many.
func (l *Log) Entries(before int64, most int) (all []Entry, err error) {
	ring := make([]Entry, 0, most)
	n := 0
	err = l.eachEntry(func(e *Entry, _ int, _ []byte, bad error) bool {
		if bad != nil || before > 0 && e.Seq >= before {
			return bad != nil
		}
		if len(ring) < most {
			ring = append(ring, *e)
		} else {
			ring[n%most] = *e
		}
		n++
		return true
	})
	all = make([]Entry, 0, len(ring))
	for i := range ring {
		e := ring[(n-1-i)%most]
		e.Salt = ""
		all = append(all, e)
	}
	return all, err
}

// EntriesAbout returns the entries whose details name a person, oldest first.
func (l *Log) EntriesAbout(names func(details string) bool) (all []Entry, err error) {
	err = l.eachEntry(func(e *Entry, _ int, _ []byte, bad error) bool {
		if bad == nil && e.Details != "" && names(e.Details) {
			e.Salt = ""
			all = append(all, *e)
		}
		return true
	})
	return all, err
}

// erasedDetails is the action of an entry that lists the entries whose details were erased. If
// other details are missing, somebody has tampered with the log.
const erasedDetails = "details erased"

// erasedAtOnce is how many of them one entry lists.
const erasedAtOnce = 200

// Erase removes the details of entries that name a person, and returns their
// number. The action and its author stay. With dry it only counts.
func (l *Log) Erase(names func(details string) bool, dry bool) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone, err := l.placesNaming(names)
	if err != nil || dry || len(gone) == 0 {
		return len(gone), err
	}
	var said []Entry
	for left := gone; len(left) > 0; {
		n := min(len(left), erasedAtOnce)
		said = append(said, Entry{By: "Shuultuur", Action: erasedDetails, Details: strings.Trim(fmt.Sprint(left[:n]), "[]")})
		left = left[n:]
	}
	if l.fail = l.add(said); l.fail != nil { // written first, so that no details are missing without a reason
		return 0, l.fail
	}
	unlock, err := platform.LockPath(filepath.Join(l.dir, "audit.lock"), 0o600)
	if err != nil {
		return 0, err
	}
	defer unlock()
	name := filepath.Join(l.dir, auditFile)
	when := l.now().UTC().Format(time.RFC3339)
	err = atomicfile.Write(name, 0o600, func(f *os.File) error {
		w, left := bufio.NewWriter(f), gone
		var failed error
		err := l.eachEntry(func(e *Entry, line int, text []byte, bad error) bool {
			if len(left) > 0 && left[0] == e.Seq {
				left = left[1:]
				e.Details, e.Salt, e.Erased = "", "", when
				if text, failed = json.Marshal(e); failed != nil {
					return false
				}
			}
			_, _ = w.Write(text) // Flush returns the error of writing
			_ = w.WriteByte('\n')
			return true
		})
		return errors.Join(err, failed, w.Flush())
	})
	giveToOwner(l.dir, auditFile)
	return len(gone), err
}

// placesNaming returns the places of the entries whose details name a person.
func (l *Log) placesNaming(names func(details string) bool) (all []int64, err error) {
	var failed error
	err = l.eachEntry(func(e *Entry, line int, _ []byte, bad error) bool {
		if bad != nil {
			failed = fmt.Errorf("line %d of the audit log is no entry: %w", line, bad)
		} else if e.Action != erasedDetails && e.Details != "" && names(e.Details) {
			all = append(all, e.Seq)
		}
		return bad == nil
	})
	return all, errors.Join(failed, err)
}
