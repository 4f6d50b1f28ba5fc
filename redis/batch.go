package redis

import (
	"context"
	"strconv"
	"sync/atomic"
)

// A Batch is commands that are sent together, and their replies. It is used by
// one goroutine. After [Client.Do] has returned an error that is no [Error],
// replies may still be on their way to it: it is not used again then.
type Batch struct {
	out  []byte // the commands, encoded
	cmds []command
	raw  []byte // the replies, as they arrived
	ends []int  // of the replies in raw

	// Then, if it is set, is called when all replies have arrived, before
	// anything that the server sends afterwards is looked at, such as an
	// invalidation. It must not block. A batch that has it is for one server.
	Then func(*Batch)

	state atomic.Int32  // whether somebody waits
	done  chan struct{} // one value when it is over
	err   error         // why there are no replies
	skip  int           // replies of the first of two commands, see command.replies
}

// What becomes of a batch.
const (
	waiting int32 = iota
	ended
	abandoned
)

// A command is one of a batch.
type command struct {
	end     int // in out
	key     int // where its key begins in out, 0 for none
	keyEnd  int
	replies int8 // 2 where a command before it, such as ASKING, is part of it
}

// keyless are commands that do not name a key first.
var keyless = map[string]bool{
	"PING": true, "INFO": true, "CONFIG": true, "DBSIZE": true, "PUBLISH": true, "SCAN": true, "CLUSTER": true,
	"SENTINEL": true, "HELLO": true, "SELECT": true, "CLIENT": true, "ROLE": true, "ACL": true, "DEBUG": true, "PUBSUB": true, "FLUSHALL": true,
}

// Reset empties the batch and keeps its storage. Replies are no longer valid.
func (b *Batch) Reset() {
	b.out, b.cmds, b.raw, b.ends = b.out[:0], b.cmds[:0], b.raw[:0], b.ends[:0]
	b.err, b.Then, b.skip = nil, nil, 0
}

// Len returns how many commands there are.
func (b *Batch) Len() int { return len(b.cmds) }

// Add adds a command. In a cluster its second word is the key that says which
// node executes it (the fourth of EVAL); PUBLISH and commands about the server
// itself go to any node.
func (b *Batch) Add(words ...string) { b.add(1, words) }

// AddTracked is Add for a command whose key the server is to track: it tells
// when the key changes (see [Options]).
func (b *Batch) AddTracked(words ...string) {
	b.out = append(b.out, "*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$3\r\nYES\r\n"...)
	b.add(2, words)
}

func (b *Batch) add(replies int8, words []string) {
	at := -1
	switch {
	case words[0] == "EVAL":
		at = 3
	case !keyless[words[0]]:
		at = 1
	}
	c := command{replies: replies}
	b.out = append(b.out, '*')
	b.out = append(strconv.AppendInt(b.out, int64(len(words)), 10), "\r\n"...)
	for i, w := range words {
		b.out = append(b.out, '$')
		b.out = append(strconv.AppendInt(b.out, int64(len(w)), 10), "\r\n"...)
		if i == at {
			c.key, c.keyEnd = len(b.out), len(b.out)+len(w)
		}
		b.out = append(append(b.out, w...), "\r\n"...)
	}
	c.end = len(b.out)
	b.cmds = append(b.cmds, c)
}

// take adds the command i of another batch.
func (b *Batch) take(from *Batch, i int, asking bool) {
	begin, c := 0, from.cmds[i]
	if i > 0 {
		begin = from.cmds[i-1].end
	}
	if asking {
		b.out = append(b.out, "*1\r\n$6\r\nASKING\r\n"...)
		c.replies++
	}
	shift := len(b.out) - begin
	b.out = append(b.out, from.out[begin:c.end]...)
	if c.key > 0 {
		c.key, c.keyEnd = c.key+shift, c.keyEnd+shift
	}
	c.end += shift
	b.cmds = append(b.cmds, c)
}

// Key returns the key of command i, "" if it has none.
func (b *Batch) Key(i int) string { return string(b.out[b.cmds[i].key:b.cmds[i].keyEnd]) }

// Reply returns the reply to command i. It is valid until the batch is used
// again.
func (b *Batch) Reply(i int) Reply {
	begin := 0
	if i > 0 {
		begin = b.ends[i-1]
	}
	return Reply{b.raw[begin:b.ends[i]:b.ends[i]]}
}

// Failed returns which command the server refused first, and its reply; -1 if
// it refused none.
func (b *Batch) Failed() (i int, err error) {
	for i := range b.ends {
		if err := b.Reply(i).Err(); err != nil {
			return i, err
		}
	}
	return -1, nil
}

// begin makes the batch ready to be sent.
func (b *Batch) begin() {
	b.state.Store(waiting)
	if b.done == nil {
		b.done = make(chan struct{}, 1)
	}
	b.raw, b.ends = b.raw[:0], b.ends[:0]
	b.skip, b.err = 0, nil
}

// complete takes in the end of a reply, which began at from in raw, and says
// whether it was the last one. Of several replies to one command the last one
// counts, unless one before it is an error. kept is false when somebody has
// ceased to wait, and the reply is not in raw.
func (b *Batch) complete(from int, kept bool) (last bool) {
	i := len(b.ends)
	if c := b.cmds[i]; b.skip+1 < int(c.replies) {
		b.skip++
		if kept && (Reply{b.raw[from:]}).Err() == nil {
			b.raw = b.raw[:from]
		}
		return false
	}
	b.skip = 0
	begin := 0
	if i > 0 {
		begin = b.ends[i-1]
	}
	if begin < from { // an error came before
		b.raw = b.raw[:from]
	}
	b.ends = append(b.ends, len(b.raw))
	return len(b.ends) == len(b.cmds)
}

// over ends the batch, with an error or with its replies.
func (b *Batch) over(err error) {
	if !b.state.CompareAndSwap(waiting, ended) {
		return
	}
	if b.err = err; err == nil && b.Then != nil {
		b.Then(b)
	}
	b.done <- struct{}{}
}

// wait waits until the batch is over.
func (b *Batch) wait(ctx context.Context) error {
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
	}
	if b.state.CompareAndSwap(waiting, abandoned) {
		return ctx.Err()
	}
	<-b.done
	return b.err
}
