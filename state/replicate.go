package state

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"shuultuur/lib/redis"
)

// How a fleet shares instructions. The hash "instructions" has a field for each, named by
// topic, key and version, and never rewritten. Of two fields with the same topic and key any
// node may delete the older one, and no node can undo the write of another. Each write is
// also published.
//
// A node that has missed a message sees that the number of fields differs from its own, and
// reads all of them. So does a node that returns; it then writes the missing ones.

const (
	// longestRead bounds the time to read all of them, maxRead the bytes.
	longestRead = 30 * time.Second
	maxRead     = 64 << 20
	// maxPublished is how many are published one by one.
	maxPublished = 50
)

// field is the name of an instruction in Redis.
func (i *Instruction) field() string {
	return i.Topic + "\x00" + i.Key + "\x00" + strconv.FormatInt(i.At, 10) + "\x00" + i.Node
}

// parseInstruction reads a field and its value.
func parseInstruction(field, value []byte) (i Instruction, ok bool) {
	parts := bytes.Split(field, []byte{0})
	if len(parts) != 4 || json.Unmarshal(value, &i) != nil {
		return i, false
	}
	return i, i.field() == string(field) && i.Check() == nil
}

func (f *Fleet) instructionsKey() string { return f.link.config.Prefix + "instructions" }

// replicate shares instructions until ctx ends.
func (f *Fleet) replicate(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for looks := 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.compare(ctx, looks%wholeEvery == 0)
			looks++
		case <-f.meet: // Redis is back, or messages may have been missed
			f.reconcile(ctx)
		case <-f.arrived:
			f.mu.Lock()
			inbox := f.inbox
			f.inbox = nil
			f.mu.Unlock()
			f.own.Instructions.take(inbox, true)
		case <-f.own.Instructions.send:
			f.publishAll(ctx)
		}
	}
}

// receive receives an instruction that another node has published: a field, a line feed
// and its value, or nothing when there are many. It does not block.
func (f *Fleet) receive(payload []byte) {
	field, value, _ := bytes.Cut(payload, []byte{'\n'})
	i, ok := parseInstruction(field, value)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !ok || len(f.inbox) >= pipeline:
		nudge(f.meet)
	case i.Node != f.own.Instructions.node:
		f.inbox = append(f.inbox, i)
		nudge(f.arrived)
	}
}

// compare reconciles when the number of instructions in Redis differs from that of this
// node, or, with whole, in any case.
func (f *Fleet) compare(ctx context.Context, whole bool) {
	var b redis.Batch
	b.Add("HLEN", f.instructionsKey())
	if f.link.background(ctx, &b) != nil {
		return // the link has noted it
	}
	if n, err := b.Reply(0).Int(); err != nil || whole || !f.own.Instructions.agrees(int(n)) {
		f.reconcile(ctx)
		return
	}
	f.own.Instructions.agree()
}

// reconcile reads all instructions in Redis, takes newer ones, deletes older ones, and writes
// missing ones.
func (f *Fleet) reconcile(ctx context.Context) {
	c := f.link.conn.Load()
	if c == nil {
		return
	}
	// This replaces a key of another type; see link.do.
	var b redis.Batch
	b.Add("HLEN", f.instructionsKey())
	if f.link.background(ctx, &b) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, longestRead)
	defer cancel()
	s := c.Session(ctx, 8*maxInstruction)
	defer s.Close()
	all, size := copies{now: f.own.Instructions.certain(), newest: map[name]Instruction{}}, 0
	err := s.Hash(f.instructionsKey(), func(field, value []byte) error {
		if size += len(field) + len(value); size > maxRead {
			return fmt.Errorf("more than %d bytes of instructions are in Redis", maxRead)
		}
		all.add(field, value)
		return nil
	})
	if err != nil {
		f.link.judge(ctx, c, err)
		return
	}
	f.remove(ctx, f.own.Instructions.meet(&all))
	f.publishAll(ctx)
}

// copies are the instructions in Redis.
type copies struct {
	now    time.Time
	newest map[name]Instruction
	older  []string // fields that nobody needs
}

// add adds a field with its value.
func (c *copies) add(field, value []byte) {
	i, ok := parseInstruction(field, value)
	if !ok || i.stale(c.now) {
		c.older = append(c.older, string(field))
		return
	}
	n := name{i.Topic, i.Key}
	other, twice := c.newest[n]
	switch {
	case !twice:
		c.newest[n] = i
	case i.newer(&other):
		c.newest[n] = i
		c.older = append(c.older, other.field())
	case other.newer(&i):
		c.older = append(c.older, i.field())
	}
}

// meet takes what is newer in Redis, and returns the fields there that are replaced.
func (s *Instructions) meet(c *copies) (older []string) {
	news := make([]Instruction, 0, len(c.newest))
	for _, i := range c.newest {
		news = append(news, i)
	}
	s.mu.Lock()
	s.behind = false // take says if it is so again
	s.mu.Unlock()
	s.take(news, true)
	return append(c.older, s.compare(c.newest, c.now)...)
}

// remove deletes fields.
func (f *Fleet) remove(ctx context.Context, fields []string) {
	for len(fields) > 0 {
		n := min(len(fields), pipeline)
		var b redis.Batch
		b.Add(append([]string{"HDEL", f.instructionsKey()}, fields[:n]...)...)
		if f.link.background(ctx, &b) != nil {
			return // the next comparison finds them again
		}
		fields = fields[n:]
	}
}

// publishAll writes and publishes the instructions that Redis lacks, and deletes
// those that they replace.
func (f *Fleet) publishAll(ctx context.Context) {
	for {
		part, older := f.own.Instructions.unshared(pipeline)
		if len(part) == 0 {
			f.remove(ctx, older)
			return
		}
		var b redis.Batch
		for _, i := range part {
			value, err := json.Marshal(i)
			if err != nil {
				return // impossible: it holds texts, numbers and times
			}
			b.Add("HSET", f.instructionsKey(), i.field(), string(value))
			if len(part) <= maxPublished {
				b.Add("PUBLISH", f.link.config.Prefix+"changes", i.field()+"\n"+string(value))
			}
		}
		if f.link.background(ctx, &b) != nil {
			return // the next comparison finds that they are missing
		}
		f.own.Instructions.markShared(part)
		f.remove(ctx, older)
		if len(part) > maxPublished && len(part) < pipeline { // the last of many
			b.Reset()
			b.Add("PUBLISH", f.link.config.Prefix+"changes", "")
			_ = f.link.background(ctx, &b) // the number of fields tells the same
		}
	}
}

// agrees reports whether this node seems to have what Redis has, which are n instructions.
func (s *Instructions) agrees(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	shared := 0
	for _, t := range s.all {
		if t.shared {
			shared++
		}
	}
	return n == shared && shared == len(s.all) && !s.behind
}

// compare compares this node's instructions with those in Redis. It marks those that Redis
// lacks, and returns the fields that newer ones replace. If the clock says that this node was away for
// long, but is not believed, and no other node has given an instruction since, what Redis lacks is
// neither withdrawn nor shared.
func (s *Instructions) compare(found map[name]Instruction, now time.Time) (older []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	away := func(at time.Time) bool { return !s.agreed.IsZero() && at.Sub(s.agreed) > absent }
	wall := s.clock.Now()
	for _, i := range found {
		if at := time.UnixMilli(i.At); i.Node != s.node && at.After(now) && !at.After(wall) {
			now = at
		}
	}
	long := away(now)
	doubtful := !long && away(wall)
	var withdrawn []*keptInstruction
	for n, t := range s.all {
		i, there := found[n]
		t.shared = there && i.At == t.At && i.Node == t.Node
		t.held = !there && doubtful && t.At < s.agreed.UnixMilli()
		switch {
		case there && t.newer(&i):
			older = append(older, i.field())
		case !there && long && len(found) > 0 && t.Value != "" && t.At < s.agreed.UnixMilli():
			// It is so old that its withdrawal may be forgotten.
			s.last = max(s.last+1, now.UnixMilli())
			withdrawn = append(withdrawn, &keptInstruction{Instruction: Instruction{Topic: t.Topic, Key: t.Key, At: s.last, Node: s.node}})
		}
	}
	if len(withdrawn) > 0 {
		s.log.Warn("instructions are withdrawn: they are older than this node's last contact with the fleet, which no longer has them", "instructions", len(withdrawn), "contact", s.agreed)
		if err := s.addAll(withdrawn); err != nil {
			s.log.Error("withdrawn instructions will be withdrawn again after a restart", "error", err)
		}
		nudge(s.wake)
	}
	return older
}

// unshared returns up to most instructions that Redis lacks, and the fields there that they
// replace.
func (s *Instructions) unshared(most int) (all []Instruction, older []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.all {
		if !t.shared && !t.held && len(all) < most {
			all = append(all, t.Instruction)
		}
	}
	older, s.older = s.older, nil
	return all, older
}

// markShared marks instructions as present in Redis.
func (s *Instructions) markShared(all []Instruction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range all {
		if t := s.all[name{i.Topic, i.Key}]; t != nil && t.At == i.At && t.Node == i.Node {
			t.shared = true
		}
	}
}
