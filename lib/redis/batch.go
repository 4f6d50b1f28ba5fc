package redis

import (
	"context"
	"strconv"
	"sync/atomic"
)

// A Batch is commands that are sent together, and their replies. It is not safe for concurrent
// use. After [Client.Do] has returned an error other than [Error], do not use the Batch again,
// because replies may still arrive.
type Batch struct {
	out  []byte // the commands, encoded
	cmds []command
	raw  []byte // the replies, as they arrived
	ends []int  // of the replies in raw

	// Then, if set, is called when all replies have arrived, before anything that the server
	// sends afterwards is processed, such as an invalidation. It must not block. A batch with
	// Then goes to one server.
	Then func(*Batch)

	state atomic.Int32  // whether a caller waits
	done  chan struct{} // gets one value at the end
	err   error         // why there are no replies
	skip  int           // replies of the first of two commands to skip, see command.replies
}

// States of a batch.
const (
	waiting int32 = iota
	ended
	abandoned
)

// A command is a command of a batch.
type command struct {
	end     int // in out
	key     int // where its key begins in out, 0 if it has none
	keyEnd  int
	replies int8 // 2 if a preceding command, such as ASKING, is part of it
}

// keyless are commands whose first argument is not a key.
var keyless = map[string]bool{
	"PING": true, "INFO": true, "CONFIG": true, "DBSIZE": true, "PUBLISH": true, "SCAN": true, "CLUSTER": true,
	"SENTINEL": true, "HELLO": true, "SELECT": true, "CLIENT": true, "ROLE": true, "ACL": true, "DEBUG": true, "PUBSUB": true, "FLUSHALL": true,
}

// Reset empties the batch and keeps its memory. Replies become invalid.
func (b *Batch) Reset() {
	b.out, b.cmds, b.raw, b.ends = b.out[:0], b.cmds[:0], b.raw[:0], b.ends[:0]
	b.err, b.Then, b.skip = nil, nil, 0
}

// Len returns the number of commands.
func (b *Batch) Len() int { return len(b.cmds) }

// Add adds a command. In a cluster its second word is the key that selects the node (the
// fourth of EVAL); PUBLISH and commands about the server itself go to any node.
func (b *Batch) Add(words ...string) { b.add(1, words) }

// AddTracked is Add for a command whose key the server should track: it reports when the key
// changes (see [Options]).
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

// take adds command i of another batch.
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

// Reply returns the reply to command i, which is valid until the batch is used again.
func (b *Batch) Reply(i int) Reply {
	begin := 0
	if i > 0 {
		begin = b.ends[i-1]
	}
	return Reply{b.raw[begin:b.ends[i]:b.ends[i]]}
}

// Failed returns the first command that the server refused, and its error; -1 if there is
// none.
func (b *Batch) Failed() (i int, err error) {
	for i := range b.ends {
		if err := b.Reply(i).Err(); err != nil {
			return i, err
		}
	}
	return -1, nil
}

// begin prepares the batch for sending.
func (b *Batch) begin() {
	b.state.Store(waiting)
	if b.done == nil {
		b.done = make(chan struct{}, 1)
	}
	b.raw, b.ends = b.raw[:0], b.ends[:0]
	b.skip, b.err = 0, nil
}

// complete handles the end of a reply, which began at from in raw, and reports whether it was
// the last one. Of several replies to one command the last one counts, or the first error.
// kept is false when the caller has stopped waiting, and the reply is not in raw.
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
	if begin < from { // there was an error before
		b.raw = b.raw[:from]
	}
	b.ends = append(b.ends, len(b.raw))
	return len(b.ends) == len(b.cmds)
}

// finish ends the batch, with an error or with its replies.
func (b *Batch) finish(err error) {
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
