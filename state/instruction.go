package state

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"shuultuur/lib/clock"
)

// An Instruction is an order to a running gateway that all nodes of its fleet carry out: a
// change of a list, a pause of filtering, a version of a list to fetch.
type Instruction struct {
	Topic string `json:"topic"` // the part of the program that carries it out, such as "pause"
	// Key names the subject. A later instruction with the same Topic and Key replaces this one.
	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"` // "" withdraws the instruction under Key
	// Until is when it expires; the zero time means never.
	Until time.Time `json:"until,omitzero"`
	By    string    `json:"by,omitempty"` // who gave it, for the log
	// Brief says that every instruction under this Topic expires within [MaxBrief]. Such
	// instructions are frequent and are not kept for long.
	Brief bool `json:"brief,omitempty"`

	// At and Node form its version. [Instructions.Issue] sets them: At is the current time, but
	// always later than that of the instruction it replaces, however wrong the clocks are.
	At   int64  `json:"at"` // Unix milliseconds
	Node string `json:"node"`
}

// Limits of instructions. One that exceeds them is refused.
const (
	maxInstructions = 200_000
	maxInstruction  = 8 << 10 // bytes of all its texts together
	// keepOver is how long an expired or withdrawn instruction is kept, so that a node that was
	// away cannot restore the one it replaced.
	keepOver = 90 * 24 * time.Hour
	// absent is how long a node may be away and still add instructions that Redis lacks. After
	// that they may have been withdrawn in the meantime.
	absent = 60 * 24 * time.Hour
	// agreeEvery is how often a node records that it agrees with the others.
	agreeEvery = time.Hour
	// againEvery is how often a node retries an instruction that failed.
	againEvery = 5 * time.Second
)

// MaxBrief is how far in the future the end of a brief instruction may be.
const MaxBrief = 7 * 24 * time.Hour

// newer reports whether i replaces j.
func (i *Instruction) newer(j *Instruction) bool {
	return cmp.Or(cmp.Compare(i.At, j.At), strings.Compare(i.Node, j.Node), strings.Compare(i.Value, j.Value)) > 0
}

// isOver reports whether it is withdrawn or expired.
func (i *Instruction) isOver(now time.Time) bool {
	return i.Value == "" || !i.Until.IsZero() && !i.Until.After(now)
}

// Check returns the reason why an instruction cannot be given, or nil.
func (i *Instruction) Check() error {
	size := len(i.Topic) + len(i.Key) + len(i.Value) + len(i.By) + len(i.Node)
	switch {
	case i.Topic == "" || strings.ContainsAny(i.Topic+i.Key+i.Node, "\x00\n"):
		return errors.New("an instruction needs a topic; topic and key must not contain a zero byte or a line feed")
	case !utf8.ValidString(i.Topic + i.Key + i.Value + i.By + i.Node):
		return errors.New("an instruction is text in UTF-8")
	case i.Brief && (i.Until.IsZero() || i.Until.After(time.Now().Add(MaxBrief+time.Hour))):
		return fmt.Errorf("a brief instruction that ends at %v: at most %v are brief", i.Until, MaxBrief)
	case size > maxInstruction:
		return fmt.Errorf("an instruction of %d bytes; at most %d can be kept", size, maxInstruction)
	}
	return nil
}

// name identifies the instruction that another replaces.
type name struct{ topic, key string }

// A keptInstruction is an instruction as this node keeps it.
type keptInstruction struct {
	Instruction
	Done bool `json:"done,omitempty"` // this node has carried it out

	shared bool // Redis has it; not kept over a restart
	held   bool // it is not shared as long as nobody knows whether it was withdrawn long ago
}

// Instructions are the instructions known to this node. They are safe for concurrent use.
//
// They form a log in which only the last entry for each key counts, so nodes may receive
// entries in any order. A file keeps it over restarts; a [Fleet] shares it with the other
// nodes.
type Instructions struct {
	node string
	log  *slog.Logger
	file *journal // nil keeps nothing

	clock  *clock.Guard // whether what is old may be forgotten
	opened time.Time

	wake chan struct{} // there are instructions to carry out
	send chan struct{} // there are instructions to share

	mu     sync.Mutex
	all    map[name]*keptInstruction // guarded by mu
	last   int64                     // guarded by mu: the greatest At
	agreed time.Time                 // guarded by mu: when this node last agreed with the others
	older  []string                  // guarded by mu: fields in Redis that are replaced
	behind bool                      // guarded by mu: one of another node could not be kept
	ended  []Instruction             // guarded by mu: erased by another node, to be reported as withdrawn; not kept over a restart

	received int64 // guarded by mu: number received from other nodes
	failing  error // guarded by mu: why the last ones could not be kept
}

// openInstructions reads the instructions in a file; "" means no file.
func openInstructions(path string, log *slog.Logger) (*Instructions, error) {
	s := &Instructions{
		node: strings.ToLower(rand.Text()[:10]), log: log,
		wake: make(chan struct{}, 1), send: make(chan struct{}, 1), all: map[name]*keptInstruction{},
		clock: clock.New(clock.Config{Log: log.With("store", "instructions")}), opened: time.Now(),
	}
	if path == "" {
		return s, nil
	}
	file, all, agreed, err := openJournal(path, log)
	if err != nil {
		return nil, fmt.Errorf("reading instructions: %w", err)
	}
	s.file, s.agreed = file, agreed
	for _, t := range all {
		s.all[name{t.Topic, t.Key}] = t
		s.last = max(s.last, t.At)
	}
	if file.damaged {
		if err := s.rewrite(); err != nil {
			return nil, err
		}
	}
	if err := s.eraseToo(all); err != nil { // left over when the process ended between noting an erasure and carrying it out
		return nil, err
	}
	return s, nil
}

// leave closes the file; later instructions are kept in memory only.
func (s *Instructions) leave() error {
	err := s.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file = nil
	return err
}

// Problems returns the reasons why instructions are not kept.
func (s *Instructions) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing == nil || s.file == nil {
		return nil
	}
	return []string{fmt.Sprintf("instructions, such as sessions and pauses, cannot be kept in %s and are refused: %v", s.file.path, s.failing)}
}

func (s *Instructions) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	return s.file.close()
}

// Issue issues instructions that this node has already carried out, all or none. When it
// returns, they are in the file. The other nodes get them as soon as they can be reached.
func (s *Instructions) Issue(all ...Instruction) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	fresh := 0
	given := make([]*keptInstruction, len(all))
	for n, i := range all {
		if err := i.Check(); err != nil {
			return err
		}
		if s.all[name{i.Topic, i.Key}] == nil {
			fresh++
		}
		s.last = max(s.last+1, now.UnixMilli())
		i.At, i.Node = s.last, s.node
		given[n] = &keptInstruction{Instruction: i, Done: true}
	}
	if len(s.all)+fresh > maxInstructions {
		return fmt.Errorf("%d instructions are in force or were withdrawn lately; no more can be kept", len(s.all))
	}
	if err := s.addAll(given); err != nil {
		return err
	}
	nudge(s.send)
	return nil
}

// addAll adds instructions and writes them to the file. The caller holds the lock.
func (s *Instructions) addAll(all []*keptInstruction) error {
	if s.file != nil {
		if s.failing = s.file.append(all); s.failing != nil {
			return fmt.Errorf("keeping instructions over a restart: %w", s.failing)
		}
	}
	for _, t := range all {
		n := name{t.Topic, t.Key}
		if old := s.all[n]; old != nil && old.shared && !t.shared && old.field() != t.field() {
			s.replaced(old.field())
		}
		s.all[n] = t
		s.last = max(s.last, t.At)
	}
	if s.file != nil && s.file.lines > 2*len(s.all)+1000 {
		if err := s.rewrite(); err != nil {
			s.log.Error("the file of instructions cannot be rewritten", "error", err)
		}
	}
	return nil
}

// erasedTopic is the topic of instructions that record the erasure of another one. The key is
// a hash of its topic and key. They expire after MaxBrief: a node that was away for longer may
// restore the erased instruction.
const erasedTopic = "erased"

// erasedKey names an instruction without revealing whom it is about.
func (n name) erasedKey() name {
	sum := sha256.Sum256([]byte(n.topic + "\x00" + n.key))
	return name{erasedTopic, hex.EncodeToString(sum[:16])}
}

// Erase removes instructions, withdrawn ones included, from all nodes, their files and Redis.
// An erased instruction that a returning node still has is refused. Erase returns the number
// removed here. With dry it only counts them.
func (s *Instructions) Erase(match func(*Instruction) bool, dry bool) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []name
	for k, t := range s.all {
		if k.topic != erasedTopic && match(&t.Instruction) {
			gone = append(gone, k)
		}
	}
	if dry {
		return len(gone), nil
	}
	for _, k := range gone {
		s.forget(k)
	}
	now := time.Now()
	for _, k := range gone {
		e := k.erasedKey()
		s.last = max(s.last+1, now.UnixMilli())
		s.all[e] = &keptInstruction{Done: true, Instruction: Instruction{
			Topic: e.topic, Key: e.key, Value: "erased", Until: now.Add(MaxBrief), Brief: true, At: s.last, Node: s.node,
		}}
	}
	err := s.rewrite() // this also removes replaced lines
	nudge(s.send)
	return len(gone), err
}

// forget drops an instruction and notes its field in Redis. The caller holds the lock.
func (s *Instructions) forget(n name) {
	if t := s.all[n]; t.shared {
		s.replaced(t.field())
	}
	delete(s.all, n)
}

// replaced notes a field to delete from Redis. The caller holds the lock.
func (s *Instructions) replaced(field string) {
	if len(s.older) < maxInstructions {
		s.older = append(s.older, field)
	}
}

// rewrite rewrites the file with only the entries that count. The caller holds the lock.
func (s *Instructions) rewrite() error {
	if s.file == nil {
		return nil
	}
	if err := s.file.rewrite(s.all); err != nil {
		return fmt.Errorf("removing instructions from %s: %w", s.file.path, err)
	}
	return nil
}

// eraseToo removes the instructions that another node has erased and reports them as
// withdrawn here, because their withdrawal may have been erased before it was shared. The
// caller holds the lock.
func (s *Instructions) eraseToo(heard []*keptInstruction) error {
	marks := map[name]*keptInstruction{}
	for _, t := range heard {
		if t.Topic == erasedTopic {
			marks[name{t.Topic, t.Key}] = t
		}
	}
	if len(marks) == 0 {
		return nil
	}
	before := len(s.all)
	for n, t := range s.all {
		if mark := marks[n.erasedKey()]; mark != nil && t.At <= mark.At {
			s.forget(n)
			s.ended = append(s.ended, Instruction{Topic: n.topic, Key: n.key, At: mark.At, Node: mark.Node})
		}
	}
	if len(s.all) == before {
		return nil
	}
	return s.rewrite()
}

// erased reports whether an instruction is older than its erasure. The caller holds the lock.
func (s *Instructions) erased(i *Instruction) bool {
	t := s.all[name{i.Topic, i.Key}.erasedKey()]
	return t != nil && i.At <= t.At
}

// InForce returns the instructions of a topic that are neither withdrawn nor expired, sorted
// by key.
func (s *Instructions) InForce(topic string) (all []Instruction) {
	now := time.Now()
	s.mu.Lock()
	for n, t := range s.all {
		if n.topic == topic && !t.isOver(now) {
			all = append(all, t.Instruction)
		}
	}
	s.mu.Unlock()
	slices.SortStableFunc(all, func(a, b Instruction) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// Follow calls do with the instructions of other nodes, withdrawn ones included, until ctx
// ends. After an error do gets them again, together with newer ones, even after a restart.
func (s *Instructions) Follow(ctx context.Context, do func(ctx context.Context, all []Instruction) error) {
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-again.C:
		}
		open := s.open()
		if len(open) == 0 {
			continue
		}
		if err := do(ctx, open); err != nil {
			if ctx.Err() == nil {
				s.log.Error("instructions of other nodes could not be carried out; trying again", "instructions", len(open), "error", err)
			}
			again.Reset(againEvery)
			continue
		}
		s.markDone(open)
	}
}

// open returns the instructions that this node has not carried out, oldest first.
func (s *Instructions) open() (all []Instruction) {
	s.mu.Lock()
	for _, t := range s.all {
		if !t.Done {
			all = append(all, t.Instruction)
		}
	}
	all = append(all, s.ended...)
	s.mu.Unlock()
	slices.SortStableFunc(all, func(a, b Instruction) int { return cmp.Or(cmp.Compare(a.At, b.At), strings.Compare(a.Key, b.Key)) })
	return all
}

// markDone marks instructions as carried out.
func (s *Instructions) markDone(all []Instruction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var now []*keptInstruction
	for _, i := range all {
		if t := s.all[name{i.Topic, i.Key}]; t != nil && t.At == i.At && t.Node == i.Node {
			next := *t // keeps its shared mark
			next.Done = true
			now = append(now, &next)
		}
	}
	s.ended = slices.DeleteFunc(s.ended, func(i Instruction) bool { return slices.Contains(all, i) })
	if err := s.addAll(now); err != nil {
		s.log.Error("instructions will be carried out again after a restart", "error", err)
	}
}

// take adds instructions of other nodes that are newer than the known ones. shared says that
// Redis has them.
func (s *Instructions) take(all []Instruction, shared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var fresh []*keptInstruction
	refused := 0
	for _, i := range all {
		known := s.all[name{i.Topic, i.Key}]
		switch {
		case i.Check() != nil || known == nil && len(s.all)+len(fresh) >= maxInstructions:
			refused++
		case known != nil && !i.newer(&known.Instruction):
			known.shared = known.shared || shared && known.At == i.At && known.Node == i.Node
		case s.erased(&i):
			if shared {
				s.replaced(i.field())
				nudge(s.send)
			}
		default:
			fresh = append(fresh, &keptInstruction{Instruction: i, Done: i.Topic == erasedTopic, shared: shared})
		}
	}
	if refused > 0 {
		s.log.Error("instructions of other nodes are refused: they are malformed or too many", "instructions", refused)
	}
	if len(fresh) == 0 {
		return
	}
	if err := s.addAll(fresh); err != nil {
		s.behind = true // the number in Redis does not tell: those that they replace are known to be there
		s.log.Error("instructions of other nodes could not be stored; trying again", "error", err)
		return
	}
	if err := s.eraseToo(fresh); err != nil {
		s.log.Error("instructions that another node erased stay in the file", "error", err)
	}
	s.received += int64(len(fresh))
	nudge(s.wake)
}

// stats returns how many instructions are kept, how many of them are not carried out, and how
// many came from other nodes.
func (s *Instructions) stats() (all, open, received int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.all {
		if !t.Done {
			open++
		}
	}
	return int64(len(s.all)), open + int64(len(s.ended)), s.received
}

// certain returns a time that has come for sure (see [clock.Guard]): what is forgotten by it cannot be
// had again when a wrong clock is set right.
func (s *Instructions) certain() time.Time {
	_, _ = s.clock.Check(s.newest) // newest does not fail
	return s.clock.Certain()
}

// newest returns a time that has come: when this node last agreed with the others, or else when the
// last instruction was given, or the store opened.
func (s *Instructions) newest() (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.agreed.IsZero():
		return s.agreed, nil
	case s.last > 0:
		return time.UnixMilli(s.last), nil
	}
	return s.opened, nil
}

// agree records that this node agrees with all others, and removes instructions that expired
// long ago.
func (s *Instructions) agree() {
	now := s.certain()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.agreed).Abs() < agreeEvery {
		return
	}
	s.agreed = now
	if s.file != nil {
		if err := s.file.agrees(now); err != nil {
			s.log.Error("the time at which nodes agreed cannot be saved", "file", s.file.path, "error", err)
		}
	}
	before := len(s.all)
	for n, t := range s.all {
		if t.stale(now) {
			delete(s.all, n)
		}
	}
	if len(s.all) < before {
		if err := s.rewrite(); err != nil {
			s.log.Error("expired instructions stay in the file", "error", err)
		}
	}
}

// stale reports whether an instruction expired so long ago that no node needs it. One that ended before
// it was given is of a node whose clock was wrong, and is as old as its place in their order says.
func (i *Instruction) stale(now time.Time) bool {
	end := time.UnixMilli(i.At)
	if i.Value != "" {
		if i.Until.IsZero() {
			return false
		}
		if i.Until.After(end) {
			end = i.Until
		}
	}
	if i.Brief { // the replaced one has expired by then
		return now.Sub(time.UnixMilli(i.At)) > MaxBrief+time.Hour
	}
	return now.Sub(end) > keepOver
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
