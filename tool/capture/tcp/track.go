// Package tcp follows the numbers of a TCP connection.
package tcp

import (
	"encoding/binary"
	"slices"
)

// A Phase is how far a TCP connection got, as its records and the events of its stream have it.
type Phase uint8

const (
	noPhase Phase = iota
	synSent
	synReceived
	established
	finWait1 // the server has ended its side first
	finWait2
	closing
	closeWait // the client has ended its side first
	lastAck
	timeWait
	closed
)

func (p Phase) String() string {
	return [...]string{"none", "syn_sent", "syn_recv", "established", "fin_wait1", "fin_wait2", "closing", "close_wait", "last_ack", "time_wait", "closed"}[p%11]
}

// State returns what the phase is for the connection as a whole.
func (p Phase) State() string {
	switch p {
	case noPhase, synSent, synReceived:
		return "new"
	case lastAck, timeWait, closed:
		return "closed"
	}
	return "established"
}

// ending returns the beginning of the names of events in a phase after one side ended.
func (p Phase) ending() string {
	return map[Phase]string{finWait1: "fin1", finWait2: "fin2", closing: "closing", closeWait: "closewait", lastAck: "lastack", timeWait: "timewait"}[p]
}

// Limits of handshakes: SYNs and answers to them that differ.
const (
	maxSYNs    = 10
	maxSYNACKs = 5
)

// A Track follows the numbers of a connection, to tell packets that belong to it from those
// that do not. The sides are the client's and the server's.
type Track struct {
	Phase     Phase
	before    Phase // the one that a RST ended
	resetBy   int   // side, plus 1
	first     [2]uint32
	next      [2]uint32 // behind what the side has sent
	acked     [2]uint32 // what the other side has acknowledged
	room      [2]uint32 // what the other side's window allows
	scale     [2]uint8
	stamp     [2]uint32 // last time stamp
	stamps    bool
	syns      []uint32 // other SYNs
	answers   []uint32 // other answers to them
	confirmed bool     // the handshake is over
	lenient   bool     // the beginning was not seen
}

// A Segment is what Track needs of a segment: parts of its head, and the number of bytes in it.
type Segment struct {
	Seq, Ack       uint32
	Flags          uint8
	Window, Urgent uint16
	Options        []byte
	Size           int
}

// The flags of a segment.
const (
	FIN = 1 << iota
	SYN
	RST
	PSH
	ACK
	URG
)

func after(a, b uint32) bool { return int32(a-b) > 0 }

// options reads the time stamps and the scale of the window of a segment.
func (h *Segment) read() (stamp, echo uint32, stamped bool, scale uint8) {
	for o := h.Options; len(o) > 0; {
		switch {
		case o[0] == 0:
			return
		case o[0] == 1:
			o = o[1:]
			continue
		case len(o) < 2 || o[1] < 2 || int(o[1]) > len(o):
			return
		case o[0] == 8 && o[1] == 10:
			stamp, echo, stamped = binary.BigEndian.Uint32(o[2:]), binary.BigEndian.Uint32(o[6:]), true
		case o[0] == 3 && o[1] == 3:
			scale = min(o[2], 14)
		}
		o = o[o[1]:]
	}
	return
}

// See follows a segment. It returns the events that it causes, and whether it belongs to the
// connection; if not, nothing in it changes the stream.
func (t *Track) See(p *Segment, d int, lenient bool) (events []string, belongs bool) {
	h := p
	add := func(event string) { events = append(events, event) }
	stray := func(event string) ([]string, bool) { return append(events, event), false }
	if h.Flags&ACK == 0 && h.Ack != 0 {
		add("pkt_broken_ack")
	}
	stamp, echo, stamped, scale := h.read()
	switch t.Phase {
	case noPhase:
		switch {
		case h.Flags&RST != 0:
			add("rst_but_no_session")
		case h.Flags&FIN != 0 && h.Flags&SYN != 0:
			add("fin_syn")
			add("fin_but_no_session")
		case h.Flags&FIN != 0:
			add("fin_but_no_session")
		case h.Flags&(SYN|ACK) == SYN:
			t.Phase, t.first[0], t.next[0], t.scale[0] = synSent, h.Seq, h.Seq+1+uint32(p.Size), scale
			t.stamp[0], t.stamps = stamp, stamped
		default: // in the middle
			t.Phase, t.lenient, t.confirmed = established, true, h.Flags&SYN == 0
			t.next[d], t.next[1-d], t.acked[1-d] = h.Seq+uint32(p.Size), h.Ack, h.Ack
			t.first[d], t.first[1-d] = h.Seq, h.Ack-1
		}
		return events, true
	case synSent:
		return t.answer(p, d, events, stamp, echo, stamped, scale)
	case synReceived:
		return t.confirm(p, d, events)
	case closed:
		if h.Flags&RST == 0 && t.resetBy == 2-d { // the other side goes on
			add("suspected_rst_inject")
			t.Phase, t.resetBy = t.before, 0
		}
		return events, true
	}
	other := 1 - d
	switch {
	case h.Flags&RST != 0:
		if h.Flags&ACK != 0 && !t.lenient && after(h.Ack, t.next[other]) {
			return stray("rst_invalid_ack")
		}
		t.before, t.Phase, t.resetBy = t.Phase, closed, d+1
		return events, true
	case h.Flags&SYN != 0 && t.Phase != established:
		return stray("shutdown_syn_resend")
	case h.Flags&(SYN|ACK) == SYN|ACK && !t.lenient:
		switch {
		case d == 0:
			return stray("est_synack_toserver")
		case h.Ack != t.first[0]+1:
			return stray("est_synack_resend_with_different_ack")
		case h.Seq != t.first[1]:
			return stray("est_synack_resend_with_diff_seq")
		case t.confirmed:
			return stray("est_synack_resend")
		}
		return events, true
	case h.Flags&SYN != 0 && !t.lenient:
		switch {
		case d == 1:
			return stray("est_syn_toclient")
		case h.Seq != t.first[0]:
			return stray("est_syn_resend_diff_seq")
		}
		return stray("est_syn_resend")
	}
	return t.flow(p, d, events, lenient || t.lenient)
}

// answer follows a segment while a SYN waits for its answer.
func (t *Track) answer(p *Segment, d int, events []string, stamp, echo uint32, stamped bool, scale uint8) ([]string, bool) {
	h := p
	if d == 1 && stamped && echo != 0 && (!t.stamps || echo != t.stamp[0]) {
		return append(events, "pkt_invalid_timestamp"), false
	}
	switch {
	case h.Flags&RST != 0:
		if d == 0 && (h.Seq != t.first[0] || h.Window != 0 || h.Ack != t.first[0]+1) {
			return events, false
		}
		if d == 0 || h.Ack == t.first[0]+1 {
			t.before, t.Phase, t.resetBy = t.Phase, closed, d+1
		}
	case h.Flags&(SYN|ACK) == SYN|ACK && d == 0:
		return append(events, "3whs_synack_in_wrong_direction"), false
	case h.Flags&(SYN|ACK) == SYN|ACK:
		if at := slices.Index(t.syns, h.Ack-1); at >= 0 {
			t.first[0], t.next[0] = h.Ack-1, h.Ack
		}
		tail := h.Ack - (t.first[0] + 1) // data of the SYN that is acknowledged
		if tail != 0 && tail > t.next[0]-(t.first[0]+1) {
			return append(events, "3whs_synack_with_wrong_ack"), false
		}
		if tail == 0 && t.next[0] != t.first[0]+1 {
			events = append(events, "3whs_synack_tfo_data_ignored")
			t.next[0] = t.first[0] + 1
		}
		t.Phase, t.first[1], t.next[1], t.scale[1], t.stamp[1] = synReceived, h.Seq, h.Seq+1+uint32(p.Size), scale, stamp
		t.stamps = t.stamps && stamped
		t.acked[0] = h.Ack
		t.room[0] = h.Ack + uint32(h.Window)
		if scale == 0 || t.scale[0] == 0 {
			t.scale = [2]uint8{}
		}
	case h.Flags&SYN != 0 && d == 0 && h.Seq != t.first[0] && !slices.Contains(t.syns, h.Seq):
		if len(t.syns) >= maxSYNs {
			return append(events, "3whs_syn_flood"), true
		}
		t.syns = append(t.syns, h.Seq)
	case h.Flags&SYN != 0 && d == 0 && len(t.syns) >= maxSYNs && h.Seq != t.first[0]:
		return append(events, "3whs_syn_flood"), true
	case h.Flags&ACK != 0 && d == 0: // the other side was not seen
		t.Phase, t.lenient, t.confirmed = established, true, true
		t.next[0], t.acked[1], t.next[1] = h.Seq+uint32(p.Size), h.Ack, h.Ack
	}
	return events, true
}

// confirm follows a segment before the third one of a handshake.
func (t *Track) confirm(p *Segment, d int, events []string) ([]string, bool) {
	h := p
	stray := func(event string) ([]string, bool) { return append(events, event), false }
	switch {
	case h.Flags&RST != 0:
		t.before, t.Phase, t.resetBy = t.Phase, closed, d+1
	case h.Flags&(SYN|ACK) == SYN|ACK:
		switch {
		case d == 0:
			return stray("3whs_synack_toserver_on_syn_recv")
		case h.Ack != t.acked[0]:
			return stray("3whs_synack_resend_with_different_ack")
		case h.Seq != t.first[1]:
			events = append(events, "3whs_synack_resend_with_diff_seq")
			if !slices.Contains(t.answers, h.Seq) {
				if len(t.answers) >= maxSYNACKs {
					return stray("3whs_synack_flood")
				}
				t.answers = append(t.answers, h.Seq)
			}
			return events, true
		}
	case h.Flags&SYN != 0:
		switch {
		case d == 1:
			return stray("3whs_syn_toclient_on_syn_recv")
		case h.Seq != t.first[0]:
			return stray("3whs_syn_resend_diff_seq_on_syn_recv")
		}
	case h.Flags&ACK != 0:
		if d == 1 {
			if len(t.syns) == 0 && p.Size == 0 && h.Flags&FIN == 0 && h.Ack == t.acked[0] {
				return stray("3whs_ack_in_wrong_dir")
			}
			t.Phase, t.lenient = established, true
			return t.flow(p, d, events, true)
		}
		if at := slices.Index(t.answers, h.Ack-1); at >= 0 {
			t.first[1], t.next[1] = h.Ack-1, h.Ack
		}
		right := h.Seq == t.next[0] || after(h.Seq, t.next[0])
		switch {
		case right && (h.Ack == t.next[1] || h.Ack == t.first[1]+1):
			t.Phase, t.confirmed = established, true
			t.acked[1] = h.Ack
			return t.flow(p, d, events, true)
		case h.Seq == t.next[0]:
			return stray("3whs_right_seq_wrong_ack_evasion")
		}
		return stray("3whs_wrong_seq_wrong_ack")
	}
	return events, true
}

// flow follows a segment of a connection that is established, or ends.
func (t *Track) flow(p *Segment, d int, events []string, lenient bool) ([]string, bool) {
	h, other := p, 1-d
	end := h.Seq + uint32(p.Size)
	prefix := t.Phase.ending()
	if t.Phase == established {
		prefix = "est"
	}
	if h.Flags&ACK != 0 && !lenient {
		window := max(uint32(h.Window)<<t.scale[d], 65535)
		if after(h.Ack, t.next[other]) || after(t.acked[other]-window, h.Ack) {
			events = append(events, "pkt_invalid_ack")
			if h.Flags&FIN != 0 {
				prefix = "fin"
			}
			return append(events, prefix+"_invalid_ack"), false
		}
	}
	if p.Size > 0 && !lenient {
		switch {
		case !after(end, t.acked[d]):
			if !after(end, t.acked[d]-1) {
				switch prefix {
				case "est", "closewait":
					events = append(events, prefix+"_pkt_before_last_ack")
				}
			}
			return append(events, "pkt_retransmission"), true
		case t.room[d] != 0 && after(end, t.room[d]) && h.Flags&FIN == 0:
			switch prefix {
			case "est":
				return append(events, "est_packet_out_of_window"), false
			case "closewait":
				return append(events, "closewait_ack_out_of_window"), false
			}
		}
	}
	if h.Flags&FIN != 0 {
		if !lenient && (after(t.acked[d], h.Seq) || t.room[d] != 0 && after(h.Seq, t.room[d])) {
			if prefix == "closewait" {
				return append(events, "closewait_fin_out_of_window"), false
			}
			return append(events, "fin_out_of_window"), false
		}
		end++
	}
	if after(end, t.next[d]) {
		t.next[d] = end
	}
	if h.Flags&ACK != 0 {
		if after(h.Ack, t.acked[other]) || lenient {
			t.acked[other] = h.Ack
		}
		if room := h.Ack + uint32(h.Window)<<t.scale[d]; t.room[other] == 0 || after(room, t.room[other]) {
			t.room[other] = room
		}
		if after(h.Ack, t.next[other]) {
			t.next[other] = h.Ack
		}
	}
	t.advance(h, d)
	return events, true
}

// advance changes the phase after a segment that belongs to the connection.
func (t *Track) advance(h *Segment, d int) {
	other := 1 - d
	whole := h.Flags&ACK != 0 && h.Ack == t.next[other] // everything of the other side is acknowledged
	ends := h.Flags&FIN != 0
	switch t.Phase {
	case established:
		switch {
		case ends && d == 0:
			t.Phase = closeWait
		case ends:
			t.Phase = finWait1
		}
	case finWait1:
		switch {
		case ends && d == 0 && whole:
			t.Phase = timeWait
		case ends && d == 0:
			t.Phase = closing
		case d == 0 && whole:
			t.Phase = finWait2
		}
	case finWait2:
		if ends && d == 0 {
			t.Phase = timeWait
		}
	case closing:
		if d == 1 && whole {
			t.Phase = timeWait
		}
	case closeWait:
		if ends && d == 1 {
			t.Phase = lastAck
		}
	case lastAck:
		if d == 0 && whole {
			t.Phase = closed
		}
	case timeWait:
		if whole {
			t.Phase = closed
		}
	}
}
