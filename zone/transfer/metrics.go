package transfer

import (
	"sync/atomic"
	"time"

	"shuultuur/lib/metric"
	"shuultuur/zone/sign"
)

var (
	descTransfers   = metric.NewDesc("shuultuur_dns_transfers_total", "Zone transfers, by direction and result.", "direction", "result")
	descNotifies    = metric.NewDesc("shuultuur_dns_notifies_total", "NOTIFY messages, by direction and result.", "direction", "result")
	descUpdates     = metric.NewDesc("shuultuur_dns_updates_total", "Dynamic updates that a key signed: made, without a change, refused, and failed.", "result")
	descTSIG        = metric.NewDesc("shuultuur_dns_tsig_refused_total", "Signed requests that were refused, by error.", "error")
	descSignatures  = metric.NewDesc("shuultuur_dns_signatures_total", "Signatures made on demand, remembered, and refused because of too many requests.", "result")
	descRenew       = metric.NewDesc("shuultuur_dns_signatures_renew_timestamp_seconds", "When the next zone is to be signed again; if that is long past, signing fails.")
	descUnavailable = metric.NewDesc("shuultuur_dns_zones_unavailable", "Zones whose names answer SERVFAIL: their file cannot be read, they were never received, or they have expired.")
)

// Collect implements metric.Collector.
func (s *Server) Collect(ch chan<- metric.Metric) {
	count := func(d *metric.Desc, n uint64, labels ...string) {
		ch <- metric.New(d, metric.Count, float64(n), labels...)
	}
	st := s.Stats
	for _, c := range []struct {
		desc   *metric.Desc
		n      *atomic.Uint64
		labels []string
	}{
		{descTransfers, &st.Out, []string{"out", "whole"}},
		{descTransfers, &st.OutIncremental, []string{"out", "incremental"}},
		{descTransfers, &st.OutRefused, []string{"out", "refused"}},
		{descTransfers, &st.In, []string{"in", "whole"}},
		{descTransfers, &st.InIncremental, []string{"in", "incremental"}},
		{descTransfers, &st.InFailed, []string{"in", "failed"}},
		{descNotifies, &st.NotifyOut, []string{"out", "acknowledged"}},
		{descNotifies, &st.NotifyFailed, []string{"out", "failed"}},
		{descNotifies, &st.NotifyIn, []string{"in", "taken"}},
		{descNotifies, &st.NotifyRefused, []string{"in", "refused"}},
		{descUpdates, &st.Updates, []string{"made"}},
		{descUpdates, &st.UpdatesEmpty, []string{"unchanged"}},
		{descUpdates, &st.UpdatesRefused, []string{"refused"}},
		{descUpdates, &st.UpdatesFailed, []string{"failed"}},
		{descTSIG, &st.BadKey, []string{"BADKEY"}},
		{descTSIG, &st.BadSig, []string{"BADSIG"}},
		{descTSIG, &st.BadTime, []string{"BADTIME"}},
		{descTSIG, &st.BadTrunc, []string{"BADTRUNC"}},
	} {
		count(c.desc, c.n.Load(), c.labels...)
	}
	fresh, hits, busy, renew := s.signatures()
	count(descSignatures, fresh, "fresh")
	count(descSignatures, hits, "remembered")
	count(descSignatures, busy, "refused")
	if !renew.IsZero() {
		ch <- metric.New(descRenew, metric.Gauge, float64(renew.Unix()))
	}
	ch <- metric.New(descUnavailable, metric.Gauge, float64(len(s.zones.Unavailable())))
}

// signatures sums the counts of the signers, and returns when the next one has to sign its
// zone again.
func (s *Server) signatures() (fresh, hits, busy uint64, renew time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[*sign.Signer]bool{}
	for _, e := range s.entries {
		if e.signs == nil {
			continue
		}
		if at := e.signs.Renew(e.id.view); renew.IsZero() || at.Before(renew) {
			renew = at
		}
		if !seen[e.signs] {
			seen[e.signs] = true
			f, h, b := e.signs.Counts()
			fresh, hits, busy = fresh+f, hits+h, busy+b
		}
	}
	return fresh, hits, busy, renew
}
