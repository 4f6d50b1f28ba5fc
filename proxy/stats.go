package proxy

import "sync/atomic"

// counters are what a proxy counts. They only grow, except where said.
type counters struct {
	connections, refused, perClient atomic.Int64
	open                            atomic.Int64 // goes up and down
	requests, bad, loops            atomic.Int64
	overload, tunnels, upgrades     atomic.Int64
	tunnelsOpen                     atomic.Int64 // goes up and down
	blocked, warned, redirected     atomic.Int64
	clicks, clicksRefused           atomic.Int64
	judged, abandoned, cut, partial atomic.Int64
	left                            atomic.Int64
	reused, dialed, retried         atomic.Int64
	dialFailed, upstreamFailed      atomic.Int64
	private, panics, noTLS, proto   atomic.Int64
	decrypted, certRefused          atomic.Int64
	certFaults, ech                 atomic.Int64
	transparent, misdirected        atomic.Int64
}

// Stats is what a proxy has done since it was made. Fields marked "now" go up
// and down, the others only grow.
type Stats struct {
	Connections       int64 // accepted
	ConnectionsOpen   int64 // now
	ConnectionsFull   int64 // refused, listener full
	ConnectionsClient int64 // refused, one client had too many
	NoTLS             int64 // closed: TLS hello but no TLS set up
	BadPROXY          int64 // closed: PROXY protocol header that is none
	Requests          int64
	Turns             int64 // now: requests that may be at work at once
	Queued            int64 // now: requests that wait for their turn
	Left              int64 // requests not worked on, client gone before it was its turn
	Overload          int64 // requests and connections answered with 503 by us
	Malformed         int64 // heads and bodies refused, smuggling among them
	Loops             int64
	Private           int64 // refused: address that may not be reached
	Tunnels           int64
	TunnelsOpen       int64 // now
	Upgrades          int64
	Blocked           int64
	Warned            int64
	Redirected        int64
	Clicks            int64 // on warn pages
	ClicksRefused     int64 // on warn pages: spent before, or not this client's
	Judged            int64 // judgements of bodies
	Abandoned         int64 // bodies not judged, client gone
	Cut               int64 // bodies that tipped when a part was out
	Partial           int64 // bodies larger than what is held, judged piece by piece
	Held              int64 // now: bytes held for judgement
	HeldWaiting       int64 // now: bodies that wait for room to be held in
	Judging           int64 // now: bodies being judged
	JudgeWaiting      int64 // now: bodies that wait for that
	UpstreamReused    int64
	UpstreamNew       int64
	UpstreamIdle      int64 // now
	UpstreamRetried   int64 // requests repeated because an idle connection was dead
	DialFailed        int64
	UpstreamFailed    int64 // no or no valid answer
	Decrypted         int64 // TLS connections looked into
	CertRefused       int64 // handshakes that a client broke off at our certificate
	CertFaults        int64 // origins whose certificate has a fault
	Transparent       int64 // connections that a firewall brought
	Misdirected       int64 // requests and hellos that name a host which does not have the address they went to
	ECH               int64 // hellos with encrypted_client_hello, true or noise
	Panics            int64
}

// Stats returns the counters as they stand.
func (p *Proxy) Stats() Stats {
	c := &p.counters
	return Stats{
		Connections: c.connections.Load(), ConnectionsOpen: c.open.Load(),
		ConnectionsFull: c.refused.Load(), ConnectionsClient: c.perClient.Load(),
		NoTLS: c.noTLS.Load(), BadPROXY: c.proto.Load(),
		Requests: c.requests.Load(), Turns: p.active.size(), Queued: p.active.inLine(), Left: c.left.Load(), Overload: c.overload.Load(),
		Malformed: c.bad.Load(), Loops: c.loops.Load(), Private: c.private.Load(),
		Tunnels: c.tunnels.Load(), TunnelsOpen: c.tunnelsOpen.Load(), Upgrades: c.upgrades.Load(),
		Blocked: c.blocked.Load(), Warned: c.warned.Load(), Redirected: c.redirected.Load(),
		Clicks: c.clicks.Load(), ClicksRefused: c.clicksRefused.Load(),
		Judged: c.judged.Load(), Abandoned: c.abandoned.Load(), Cut: c.cut.Load(), Partial: c.partial.Load(),
		Held: p.held.used(), HeldWaiting: p.held.inLine(),
		Judging: p.judges.used(), JudgeWaiting: p.judges.inLine(),
		UpstreamReused: c.reused.Load(), UpstreamNew: c.dialed.Load(), UpstreamIdle: p.up.idle(),
		UpstreamRetried: c.retried.Load(), DialFailed: c.dialFailed.Load(), UpstreamFailed: c.upstreamFailed.Load(),
		Decrypted: c.decrypted.Load(), CertRefused: c.certRefused.Load(), CertFaults: c.certFaults.Load(), ECH: c.ech.Load(),
		Transparent: c.transparent.Load(), Misdirected: c.misdirected.Load(),
		Panics: c.panics.Load(),
	}
}
