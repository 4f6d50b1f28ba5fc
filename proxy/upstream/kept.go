package upstream

import (
	"bytes"
	"encoding/binary"
	"sync"
	"time"

	"shuultuur/lib/dns"
)

// This file keeps answers of name servers for as long as they say, because many connections in a row go
// to one host.

const (
	mostAnswers = 4096
	// longestAnswer and longestNothing are how long an answer is kept at most, with and without
	// addresses: nobody can empty this memory.
	longestAnswer  = 5 * time.Minute
	longestNothing = 30 * time.Second
)

// keptAnswers are replies by their questions. A question is all of a message except its number.
type keptAnswers struct {
	mu sync.Mutex
	of map[string]answer
}

type answer struct {
	reply []byte
	until time.Time
}

// get returns the reply to a question, nil if none is kept.
func (s *keptAnswers) get(question []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(question) < 2 {
		return nil
	}
	a := s.of[string(question[2:])]
	if a.reply == nil || !time.Now().Before(a.until) {
		return nil
	}
	reply := bytes.Clone(a.reply)
	copy(reply, question[:2])
	return reply
}

// put keeps the reply to a question, if it is one and may be kept.
func (s *keptAnswers) put(question, reply []byte) {
	d := keptFor(question, reply)
	if d <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]answer{}
	}
	now := time.Now()
	for k, a := range s.of {
		if len(s.of) < mostAnswers {
			break
		}
		if delete(s.of, k); now.Before(a.until) {
			break // any one
		}
	}
	s.of[string(question[2:])] = answer{bytes.Clone(reply), now.Add(d)}
}

// keptFor returns how long a reply to a question may be kept: for the least time to live of its answers,
// or of the SOA record that says that there are none (RFC 2308 section 5).
func keptFor(question, reply []byte) time.Duration {
	end, err := dns.SkipQuestions(question)
	if err != nil || len(reply) < end || !bytes.Equal(question[:2], reply[:2]) || !bytes.EqualFold(question[12:end], reply[12:end]) {
		return 0
	}
	flags := binary.BigEndian.Uint16(reply[2:])
	const isReply, truncated, nameError = 1 << 15, 1 << 9, 3
	rcode := flags & 15
	if flags&isReply == 0 || flags&truncated != 0 || rcode != 0 && rcode != nameError || binary.BigEndian.Uint16(reply[4:]) != 1 {
		return 0
	}
	n, most := int(binary.BigEndian.Uint16(reply[6:])), longestAnswer
	if n == 0 || rcode != 0 {
		n, most = n+int(binary.BigEndian.Uint16(reply[8:])), longestNothing
	}
	if n == 0 {
		return 0
	}
	for off := end; n > 0; n-- {
		x, err := dns.ReadRecord(reply, off)
		if err != nil {
			return 0
		}
		off = x.End
		most = min(most, time.Duration(x.TTL)*time.Second)
	}
	return most
}
