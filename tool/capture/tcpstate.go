package capture

import (
	"encoding/binary"
	"slices"

	"shuultuur/lib/suricata/rule"
)

// A tcpPhase is how far a TCP connection got, as its records and the events of its stream have it.
type tcpPhase uint8

const (
	noPhase tcpPhase = iota
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

func (p tcpPhase) String() string {
	return [...]string{"none", "syn_sent", "syn_recv", "established", "fin_wait1", "fin_wait2", "closing", "close_wait", "last_ack", "time_wait", "closed"}[p%11]
}

// state returns what the phase is for the connection as a whole.
func (p tcpPhase) state() string {
	switch p {
	case noPhase, synSent, synReceived:
		return "new"
	case lastAck, timeWait, closed:
		return "closed"
	}
	return "established"
}

// ending returns the beginning of the names of events in a phase after one side ended.
func (p tcpPhase) ending() string {
	return map[tcpPhase]string{finWait1: "fin1", finWait2: "fin2", closing: "closing", closeWait: "closewait", lastAck: "lastack", timeWait: "timewait"}[p]
}

// Limits of handshakes: SYNs and answers to them that differ.
const (
	maxSYNs    = 10
	maxSYNACKs = 5
)

// A tcpTrack follows the numbers of a connection, to tell packets that belong to it from those
// that do not. The sides are the client's and the server's.
type tcpTrack struct {
	phase     tcpPhase
	before    tcpPhase // the one that a RST ended
	resetBy   int      // side, plus 1
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

func after(a, b uint32) bool { return int32(a-b) > 0 }

// options reads the time stamps and the scale of the window of a segment.
func (h *tcpHeader) read() (stamp, echo uint32, stamped bool, scale uint8) {
	for o := h.options; len(o) > 0; {
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

// see follows a segment. It returns the events that it causes, and whether it belongs to the
// connection; if not, nothing in it changes the stream.
func (t *tcpTrack) see(p *packet, dir rule.Direction, lenient bool) (events []string, belongs bool) {
	d := index(dir)
	h := &p.tcp
	add := func(event string) { events = append(events, event) }
	stray := func(event string) ([]string, bool) { return append(events, event), false }
	if h.flags&ackFlag == 0 && h.ack != 0 {
		add("pkt_broken_ack")
	}
	stamp, echo, stamped, scale := h.read()
	switch t.phase {
	case noPhase:
		switch {
		case h.flags&rst != 0:
			add("rst_but_no_session")
		case h.flags&fin != 0 && h.flags&syn != 0:
			add("fin_syn")
			add("fin_but_no_session")
		case h.flags&fin != 0:
			add("fin_but_no_session")
		case h.flags&(syn|ackFlag) == syn:
			t.phase, t.first[0], t.next[0], t.scale[0] = synSent, h.seq, h.seq+1+uint32(len(p.payload)), scale
			t.stamp[0], t.stamps = stamp, stamped
		default: // in the middle
			t.phase, t.lenient, t.confirmed = established, true, h.flags&syn == 0
			t.next[d], t.next[1-d], t.acked[1-d] = h.seq+uint32(len(p.payload)), h.ack, h.ack
			t.first[d], t.first[1-d] = h.seq, h.ack-1
		}
		return events, true
	case synSent:
		return t.answer(p, d, events, stamp, echo, stamped, scale)
	case synReceived:
		return t.confirm(p, d, events)
	case closed:
		if h.flags&rst == 0 && t.resetBy == 2-d { // the other side goes on
			add("suspected_rst_inject")
			t.phase, t.resetBy = t.before, 0
		}
		return events, true
	}
	other := 1 - d
	switch {
	case h.flags&rst != 0:
		if h.flags&ackFlag != 0 && !t.lenient && after(h.ack, t.next[other]) {
			return stray("rst_invalid_ack")
		}
		t.before, t.phase, t.resetBy = t.phase, closed, d+1
		return events, true
	case h.flags&syn != 0 && t.phase != established:
		return stray("shutdown_syn_resend")
	case h.flags&(syn|ackFlag) == syn|ackFlag && !t.lenient:
		switch {
		case d == 0:
			return stray("est_synack_toserver")
		case h.ack != t.first[0]+1:
			return stray("est_synack_resend_with_different_ack")
		case h.seq != t.first[1]:
			return stray("est_synack_resend_with_diff_seq")
		case t.confirmed:
			return stray("est_synack_resend")
		}
		return events, true
	case h.flags&syn != 0 && !t.lenient:
		switch {
		case d == 1:
			return stray("est_syn_toclient")
		case h.seq != t.first[0]:
			return stray("est_syn_resend_diff_seq")
		}
		return stray("est_syn_resend")
	}
	return t.flow(p, d, events, lenient || t.lenient)
}

// answer follows a segment while a SYN waits for its answer.
func (t *tcpTrack) answer(p *packet, d int, events []string, stamp, echo uint32, stamped bool, scale uint8) ([]string, bool) {
	h := &p.tcp
	if d == 1 && stamped && echo != 0 && (!t.stamps || echo != t.stamp[0]) {
		return append(events, "pkt_invalid_timestamp"), false
	}
	switch {
	case h.flags&rst != 0:
		if d == 0 && (h.seq != t.first[0] || h.window != 0 || h.ack != t.first[0]+1) {
			return events, false
		}
		if d == 0 || h.ack == t.first[0]+1 {
			t.before, t.phase, t.resetBy = t.phase, closed, d+1
		}
	case h.flags&(syn|ackFlag) == syn|ackFlag && d == 0:
		return append(events, "3whs_synack_in_wrong_direction"), false
	case h.flags&(syn|ackFlag) == syn|ackFlag:
		if at := slices.Index(t.syns, h.ack-1); at >= 0 {
			t.first[0], t.next[0] = h.ack-1, h.ack
		}
		tail := h.ack - (t.first[0] + 1) // data of the SYN that is acknowledged
		if tail != 0 && tail > t.next[0]-(t.first[0]+1) {
			return append(events, "3whs_synack_with_wrong_ack"), false
		}
		if tail == 0 && t.next[0] != t.first[0]+1 {
			events = append(events, "3whs_synack_tfo_data_ignored")
			t.next[0] = t.first[0] + 1
		}
		t.phase, t.first[1], t.next[1], t.scale[1], t.stamp[1] = synReceived, h.seq, h.seq+1+uint32(len(p.payload)), scale, stamp
		t.stamps = t.stamps && stamped
		t.acked[0] = h.ack
		t.room[0] = h.ack + uint32(h.window)
		if scale == 0 || t.scale[0] == 0 {
			t.scale = [2]uint8{}
		}
	case h.flags&syn != 0 && d == 0 && h.seq != t.first[0] && !slices.Contains(t.syns, h.seq):
		if len(t.syns) >= maxSYNs {
			return append(events, "3whs_syn_flood"), true
		}
		t.syns = append(t.syns, h.seq)
	case h.flags&syn != 0 && d == 0 && len(t.syns) >= maxSYNs && h.seq != t.first[0]:
		return append(events, "3whs_syn_flood"), true
	case h.flags&ackFlag != 0 && d == 0: // the other side was not seen
		t.phase, t.lenient, t.confirmed = established, true, true
		t.next[0], t.acked[1], t.next[1] = h.seq+uint32(len(p.payload)), h.ack, h.ack
	}
	return events, true
}

// confirm follows a segment before the third one of a handshake.
func (t *tcpTrack) confirm(p *packet, d int, events []string) ([]string, bool) {
	h := &p.tcp
	stray := func(event string) ([]string, bool) { return append(events, event), false }
	switch {
	case h.flags&rst != 0:
		t.before, t.phase, t.resetBy = t.phase, closed, d+1
	case h.flags&(syn|ackFlag) == syn|ackFlag:
		switch {
		case d == 0:
			return stray("3whs_synack_toserver_on_syn_recv")
		case h.ack != t.acked[0]:
			return stray("3whs_synack_resend_with_different_ack")
		case h.seq != t.first[1]:
			events = append(events, "3whs_synack_resend_with_diff_seq")
			if !slices.Contains(t.answers, h.seq) {
				if len(t.answers) >= maxSYNACKs {
					return stray("3whs_synack_flood")
				}
				t.answers = append(t.answers, h.seq)
			}
			return events, true
		}
	case h.flags&syn != 0:
		switch {
		case d == 1:
			return stray("3whs_syn_toclient_on_syn_recv")
		case h.seq != t.first[0]:
			return stray("3whs_syn_resend_diff_seq_on_syn_recv")
		}
	case h.flags&ackFlag != 0:
		if d == 1 {
			if len(t.syns) == 0 && len(p.payload) == 0 && h.flags&fin == 0 && h.ack == t.acked[0] {
				return stray("3whs_ack_in_wrong_dir")
			}
			t.phase, t.lenient = established, true
			return t.flow(p, d, events, true)
		}
		if at := slices.Index(t.answers, h.ack-1); at >= 0 {
			t.first[1], t.next[1] = h.ack-1, h.ack
		}
		right := h.seq == t.next[0] || after(h.seq, t.next[0])
		switch {
		case right && (h.ack == t.next[1] || h.ack == t.first[1]+1):
			t.phase, t.confirmed = established, true
			t.acked[1] = h.ack
			return t.flow(p, d, events, true)
		case h.seq == t.next[0]:
			return stray("3whs_right_seq_wrong_ack_evasion")
		}
		return stray("3whs_wrong_seq_wrong_ack")
	}
	return events, true
}

// flow follows a segment of a connection that is established, or ends.
func (t *tcpTrack) flow(p *packet, d int, events []string, lenient bool) ([]string, bool) {
	h, other := &p.tcp, 1-d
	end := h.seq + uint32(len(p.payload))
	prefix := t.phase.ending()
	if t.phase == established {
		prefix = "est"
	}
	if h.flags&ackFlag != 0 && !lenient {
		window := max(uint32(h.window)<<t.scale[d], 65535)
		if after(h.ack, t.next[other]) || after(t.acked[other]-window, h.ack) {
			events = append(events, "pkt_invalid_ack")
			if h.flags&fin != 0 {
				prefix = "fin"
			}
			return append(events, prefix+"_invalid_ack"), false
		}
	}
	if len(p.payload) > 0 && !lenient {
		switch {
		case !after(end, t.acked[d]):
			if !after(end, t.acked[d]-1) {
				switch prefix {
				case "est", "closewait":
					events = append(events, prefix+"_pkt_before_last_ack")
				}
			}
			return append(events, "pkt_retransmission"), true
		case t.room[d] != 0 && after(end, t.room[d]) && h.flags&fin == 0:
			switch prefix {
			case "est":
				return append(events, "est_packet_out_of_window"), false
			case "closewait":
				return append(events, "closewait_ack_out_of_window"), false
			}
		}
	}
	if h.flags&fin != 0 {
		if !lenient && (after(t.acked[d], h.seq) || t.room[d] != 0 && after(h.seq, t.room[d])) {
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
	if h.flags&ackFlag != 0 {
		if after(h.ack, t.acked[other]) || lenient {
			t.acked[other] = h.ack
		}
		if room := h.ack + uint32(h.window)<<t.scale[d]; t.room[other] == 0 || after(room, t.room[other]) {
			t.room[other] = room
		}
		if after(h.ack, t.next[other]) {
			t.next[other] = h.ack
		}
	}
	t.advance(h, d)
	return events, true
}

// advance changes the phase after a segment that belongs to the connection.
func (t *tcpTrack) advance(h *tcpHeader, d int) {
	other := 1 - d
	whole := h.flags&ackFlag != 0 && h.ack == t.next[other] // everything of the other side is acknowledged
	ends := h.flags&fin != 0
	switch t.phase {
	case established:
		switch {
		case ends && d == 0:
			t.phase = closeWait
		case ends:
			t.phase = finWait1
		}
	case finWait1:
		switch {
		case ends && d == 0 && whole:
			t.phase = timeWait
		case ends && d == 0:
			t.phase = closing
		case d == 0 && whole:
			t.phase = finWait2
		}
	case finWait2:
		if ends && d == 0 {
			t.phase = timeWait
		}
	case closing:
		if d == 1 && whole {
			t.phase = timeWait
		}
	case closeWait:
		if ends && d == 1 {
			t.phase = lastAck
		}
	case lastAck:
		if d == 0 && whole {
			t.phase = closed
		}
	case timeWait:
		if whole {
			t.phase = closed
		}
	}
}
