package capture

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// segments records packets of TCP that are described one in a line or after a comma: who sends it
// (c or s), flags, sequence number, acknowledged number, and optionally a window and data.
func (r *recording) segments(text string) {
	for line := range strings.SplitSeq(text, ",") {
		f := strings.Fields(line)
		var seq, ack uint32
		window, data := uint16(1000), ""
		fmt.Sscan(f[2], &seq)
		fmt.Sscan(f[3], &ack)
		if len(f) > 4 {
			fmt.Sscan(f[4], &window)
		}
		if len(f) > 5 {
			data = f[5]
		}
		flags := uint16(0)
		for _, c := range f[1] {
			flags |= 1 << strings.IndexRune("FSRPAU", c)
		}
		s, d := uint16(40000), uint16(9999)
		if f[0] == "s" {
			s, d = d, s
		}
		r.packet(f[0] == "s", 6, blocks(binary.BigEndian, s, d, seq, ack, 5<<12|flags, window, uint16(0), uint16(0), data))
	}
}

const shaken = "c S 100 0, s SA 500 101, c A 101 501"

// The events of a stream are those of packets that do not belong to it.
func TestEventsOfStreams(t *testing.T) {
	for event, x := range map[string]struct{ yes, no []string }{
		"fin_but_no_session":                    {[]string{"c F 1 0", "s FA 1 1"}, []string{"c S 1 0", "c R 1 0"}},
		"rst_but_no_session":                    {[]string{"c R 1 0", "s RA 1 1"}, []string{"c F 1 0", shaken + ", c R 101 0"}},
		"fin_syn":                               {[]string{"c SF 1 0"}, []string{"c S 1 0", "c F 1 0"}},
		"pkt_broken_ack":                        {[]string{"c S 1 7"}, []string{"c S 1 0", shaken}},
		"3whs_synack_with_wrong_ack":            {[]string{"c S 100 0, s SA 500 102", "c S 100 0, s SA 500 100"}, []string{"c S 100 0, s SA 500 101"}},
		"3whs_synack_in_wrong_direction":        {[]string{"c S 100 0, c SA 100 1"}, []string{shaken}},
		"3whs_synack_toserver_on_syn_recv":      {[]string{"c S 100 0, s SA 500 101, c SA 101 501"}, []string{shaken}},
		"3whs_synack_resend_with_different_ack": {[]string{"c S 100 0, s SA 500 101, s SA 500 102"}, []string{"c S 100 0, s SA 500 101, s SA 500 101"}},
		"3whs_synack_resend_with_diff_seq":      {[]string{"c S 100 0, s SA 500 101, s SA 501 101"}, []string{"c S 100 0, s SA 500 101, s SA 500 101"}},
		"3whs_syn_toclient_on_syn_recv":         {[]string{"c S 100 0, s SA 500 101, s S 500 0"}, []string{shaken}},
		"3whs_syn_resend_diff_seq_on_syn_recv":  {[]string{"c S 100 0, s SA 500 101, c S 99 0"}, []string{"c S 100 0, s SA 500 101, c S 100 0"}},
		"3whs_ack_in_wrong_dir":                 {[]string{"c S 100 0, s SA 500 101, s A 501 101"}, []string{shaken}},
		"3whs_right_seq_wrong_ack_evasion":      {[]string{"c S 100 0, s SA 500 101, c A 101 900"}, []string{shaken}},
		"3whs_wrong_seq_wrong_ack":              {[]string{"c S 100 0, s SA 500 101, c A 90 900"}, []string{shaken}},
		"est_synack_toserver":                   {[]string{shaken + ", c SA 101 501"}, []string{shaken}},
		"est_synack_resend":                     {[]string{shaken + ", s SA 500 101"}, []string{shaken + ", s SA 500 102"}},
		"est_synack_resend_with_different_ack":  {[]string{shaken + ", s SA 500 102"}, []string{shaken + ", s SA 500 101"}},
		"est_synack_resend_with_diff_seq":       {[]string{shaken + ", s SA 502 101"}, []string{shaken + ", s SA 500 101"}},
		"est_syn_toclient":                      {[]string{shaken + ", s S 500 0"}, []string{shaken + ", c S 100 0"}},
		"est_syn_resend":                        {[]string{shaken + ", c S 100 0"}, []string{shaken + ", c S 101 0"}},
		"est_syn_resend_diff_seq":               {[]string{shaken + ", c S 101 0"}, []string{shaken + ", c S 100 0"}},
		"est_invalid_ack":                       {[]string{shaken + ", c A 101 900"}, []string{shaken + ", s A 501 101"}},
		"pkt_invalid_ack":                       {[]string{shaken + ", c A 101 900"}, []string{shaken}},
		"est_packet_out_of_window":              {[]string{shaken + ", c PA 5000 501 1000 abc"}, []string{shaken + ", c PA 101 501 1000 abc"}},
		"est_pkt_before_last_ack":               {[]string{shaken + ", c PA 101 501 1000 abcdef, s A 501 107, c PA 101 501 1000 abc"}, []string{shaken + ", c PA 101 501 1000 abc, c PA 101 501 1000 abc"}},
		"pkt_retransmission":                    {[]string{shaken + ", c PA 101 501 1000 abc, s A 501 104, c PA 101 501 1000 abc"}, []string{shaken + ", c PA 101 501 1000 abc, s A 501 104, c PA 104 501 1000 abc"}},
		"reassembly_overlap_different_data":     {[]string{shaken + ", c PA 101 501 1000 abc, c PA 101 501 1000 xyz"}, []string{shaken + ", c PA 101 501 1000 abc, c PA 101 501 1000 abcd"}},
		"reassembly_seq_gap":                    {[]string{shaken + ", c PA 110 501 1000 abc, s A 501 113"}, []string{shaken + ", c PA 101 501 1000 abc, s A 501 104"}},
		"rst_invalid_ack":                       {[]string{shaken + ", c RA 101 900"}, []string{shaken + ", c RA 101 501"}},
		"suspected_rst_inject":                  {[]string{shaken + ", c RA 101 501, s PA 501 101 1000 abc"}, []string{shaken + ", c RA 101 501, c A 101 501", shaken + ", c RA 101 501"}},
		"fin_out_of_window":                     {[]string{shaken + ", c FA 5000 501"}, []string{shaken + ", c FA 101 501"}},
		"fin_invalid_ack":                       {[]string{shaken + ", c FA 101 900"}, []string{shaken + ", c FA 101 501"}},
		"closewait_invalid_ack":                 {[]string{shaken + ", c FA 101 501, c A 102 900"}, []string{shaken + ", c FA 101 501, s A 501 102"}},
		"shutdown_syn_resend":                   {[]string{shaken + ", c FA 101 501, c S 100 0"}, []string{shaken + ", c S 100 0"}},
	} {
		rules := "alert tcp any any -> any any (stream-event:" + event + "; sid:1;)"
		for _, text := range x.yes {
			r := newRecording()
			r.segments(text)
			if sids, _ := r.found(t, Config{}, rules); !slices.Equal(sids, []int{1}) {
				t.Errorf("%s is not seen in %s", event, text)
			}
		}
		for _, text := range x.no {
			r := newRecording()
			r.segments(text)
			if sids, _ := r.found(t, Config{}, rules); len(sids) > 0 {
				t.Errorf("%s is seen in %s", event, text)
			}
		}
	}
	r := newRecording()
	for n := range 12 { // the first and ten others are remembered
		r.segments(fmt.Sprintf("c S %d 0", 100+5*n))
	}
	_, records := r.found(t, Config{}, "alert tcp any any -> any any (stream-event:3whs_syn_flood; sid:1;)")
	if len(records["alert"]) != 1 {
		t.Errorf("twelve SYNs are %d times too many, want once", len(records["alert"]))
	}
}

// A record of a connection says how far it got.
func TestPhasesOfConnections(t *testing.T) {
	for text, want := range map[string]string{
		"c S 100 0":                                          "syn_sent new",
		"c S 100 0, s SA 500 101":                            "syn_recv new",
		shaken:                                               "established established",
		shaken + ", c FA 101 501":                            "close_wait established",
		shaken + ", s FA 501 101":                            "fin_wait1 established",
		shaken + ", s FA 501 101, c A 101 502":               "fin_wait2 established",
		shaken + ", s FA 501 101, c FA 101 501":              "closing established",
		shaken + ", s FA 501 101, c FA 101 502":              "time_wait closed",
		shaken + ", c FA 101 501, s FA 501 102":              "last_ack closed",
		shaken + ", c FA 101 501, s FA 501 102, c A 102 502": "closed closed",
		shaken + ", c RA 101 501":                            "closed closed",
		"c S 100 0, s RA 0 101":                              "closed closed",
	} {
		r := newRecording()
		r.segments(text)
		_, records := r.found(t, Config{}, "alert tcp any any -> any any (dsize:9999; sid:1;)")
		phase, _ := field(records["flow"][0], "tcp.state")
		state, _ := field(records["flow"][0], "flow.state")
		if got := fmt.Sprint(phase, " ", state); got != want {
			t.Errorf("%s: the connection is %s, want %s", text, got, want)
		}
	}
}
