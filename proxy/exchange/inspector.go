package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"shuultuur/content"
	contentlimit "shuultuur/content/limit"
	"shuultuur/lib/fair"
	"shuultuur/lib/metric"
	"shuultuur/lib/setting"
	"shuultuur/proxy/held"
	"shuultuur/proxy/judging"
	"shuultuur/proxy/saved"
)

// Config are the settings of an Inspector. The zero value of each field means its default.
type Config struct {
	Held      setting.Size     `yaml:"held"`       // bytes of one body held for the checks; default 2 MiB
	Inspected setting.Size     `yaml:"inspected"`  // decoded bytes of one body that checks read, above which it is unread; default 64 MiB
	Documents setting.Size     `yaml:"documents"`  // bytes of a document that can only be read from its end (PDF), above which it is unread; default 16 MiB
	Scripts   bool             `yaml:"scripts"`    // strings in scripts count as text
	Ranges    Ranges           `yaml:"ranges"`     // handling of ranges of a body that checks inspect: whole (default), refuse or combine
	HeldTotal setting.Size     `yaml:"held-total"` // held bytes of all bodies; default 64 MiB
	Judges    setting.Count    `yaml:"judges"`     // bodies judged at a time, without those that wait for a scanner; default 2 × GOMAXPROCS
	Downloads setting.Size     `yaml:"downloads"`  // disk space for downloads that are judged before the client gets them; default 1 GiB; off: they pass piece by piece as they are judged
	Folder    string           `yaml:"-"`          // for these downloads; "" is the system's folder for temporary files
	QueueTime setting.Duration `yaml:"queue-time"` // longest wait for a turn or for memory; default 5s
	Log       *slog.Logger     `yaml:"-"`          // default: nothing is logged
}

// An Inspector is shared by exchanges: memory to hold bodies, turns to judge them, and
// counters.
type Inspector struct {
	held      int64 // of one body
	decoded   int64 // limit of inspected bytes of one body
	documents int64 // and of a document that is read from its end
	scripts   bool
	ranges    Ranges
	pages     *judgedPages
	saved     *saved.Files // nil if downloads pass piece by piece
	wait      time.Duration
	budget    *held.Budget
	judges    *fair.Semaphore
	watch     *judging.Watch // ends judgements that take too long
	counters  [heldBytes]atomic.Int64
	unread    [content.Cut + 1]atomic.Int64 // bodies, by reason
}

// Counters of an Inspector.
const (
	judged = iota
	abandoned
	cut
	partial
	pagesChanged
	clicks
	clicksRefused
	messages
	messagesRefused
	messagesReplaced
	downloadPages
	downloadsFull
	stuck
	wholes
	wholeBytes
	heldBytes // current number, as for the following
	heldWaiting
	judgingNow
	judgeWaiting
)

var descs = [...]*metric.Desc{
	judged:           metric.NewDesc("shuultuur_bodies_judged_total", "Judgements of bodies."),
	abandoned:        metric.NewDesc("shuultuur_bodies_abandoned_total", "Bodies not judged because their client had gone."),
	cut:              metric.NewDesc("shuultuur_bodies_cut_total", "Bodies cut off because the verdict changed after a part had been sent."),
	partial:          metric.NewDesc("shuultuur_bodies_partial_total", "Bodies that passed in pieces: slow, or too large to hold."),
	pagesChanged:     metric.NewDesc("shuultuur_pages_changed_total", "Pages changed by ad-block lists."),
	clicks:           metric.NewDesc("shuultuur_warn_clicks_total", "Clicks on warn pages that count."),
	clicksRefused:    metric.NewDesc("shuultuur_warn_clicks_refused_total", "Clicks on warn pages whose token was used before, or belongs to another client."),
	messages:         metric.NewDesc("shuultuur_messages_judged_total", "Messages of conversations judged."),
	messagesRefused:  metric.NewDesc("shuultuur_messages_refused_total", "Messages of conversations that a rule refused."),
	messagesReplaced: metric.NewDesc("shuultuur_messages_replaced_total", "Messages of conversations replaced."),
	downloadPages:    metric.NewDesc("shuultuur_download_pages_total", "Downloads for which the client got a page while they were judged."),
	downloadsFull:    metric.NewDesc("shuultuur_downloads_full_total", "Downloads for which there was no room while they were judged."),
	stuck:            metric.NewDesc("shuultuur_bodies_stuck_total", "Judgements that did not end when their time was over, so that others got their turns."),
	wholes:           metric.NewDesc("shuultuur_ranges_whole_total", "Ranges for which the whole body was requested, because checks read it."),
	wholeBytes:       metric.NewDesc("shuultuur_ranges_whole_bytes_total", "Bytes that came from origins beyond the ranges that clients asked for, because checks read them."),
	heldBytes:        metric.NewDesc("shuultuur_held_bytes", "Bytes held for judgement, and bytes that HTTP/2 origins may have sent and nobody has read."),
	heldWaiting:      metric.NewDesc("shuultuur_held_waiting", "Bodies that wait for memory to be held in."),
	judgingNow:       metric.NewDesc("shuultuur_judging", "Bodies being judged."),
	judgeWaiting:     metric.NewDesc("shuultuur_judge_waiting", "Bodies that wait to be judged."),
}

var unreadDesc = metric.NewDesc("shuultuur_bodies_unread_total", "Bodies that were not inspected to their end, by reason.", "reason")

// DefaultHeldTotal is the default of Config.HeldTotal.
const DefaultHeldTotal = 64 << 20

// DefaultQueueTime is the default of Config.QueueTime.
const DefaultQueueTime = 5 * time.Second

// NewInspector returns an inspector with the limits of cfg.
func NewInspector(cfg Config) (*Inspector, error) {
	for key, size := range map[string]setting.Size{"held": cfg.Held, "held-total": cfg.HeldTotal, "inspected": cfg.Inspected, "documents": cfg.Documents} {
		if size.Off() {
			return nil, setting.At(key, errors.New("it cannot be off, because no body could be judged"))
		}
	}
	total := cfg.HeldTotal.Or(DefaultHeldTotal)
	i := &Inspector{held: cfg.Held.Or(2 << 20), decoded: cfg.Inspected.Or(64 << 20), documents: cfg.Documents.Or(contentlimit.DefaultEnds), scripts: cfg.Scripts, ranges: cfg.Ranges, pages: &judgedPages{seed: maphash.MakeSeed()}, wait: cfg.QueueTime.Or(DefaultQueueTime)}
	if most := cfg.Downloads.Or(1 << 30); most > 0 {
		i.saved = saved.New(cfg.Folder, most)
	}
	if i.held > total {
		return nil, setting.At("held", fmt.Errorf("%d bytes of one body exceed held-total, %d bytes", i.held, total))
	}
	one := (i.held + held.Large - 1) / held.Large * held.Large
	i.budget = held.New(max(total, one), one) // any permitted body fits
	judges := cfg.Judges.Or(2 * runtime.GOMAXPROCS(0))
	if judges == 0 {
		judges = math.MaxInt32
	}
	i.judges = fair.New(int64(judges), 0).ByTime()
	i.watch = judging.NewWatch(i.judges, func() { i.counters[stuck].Add(1) }, cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)))
	return i, nil
}

// limits returns the limits of a body whose memory w counts.
func (i *Inspector) limits(w *held.Windows) content.Limits {
	return content.Limits{Decoded: i.decoded, Ends: i.documents, Scripts: i.scripts, Memory: w, Text: (*held.Spare)(w)}
}

// Held returns the number of bytes currently held.
func (i *Inspector) Held() int64 { return i.budget.Used() }

// Memory returns the memory that bodies are held in.
func (i *Inspector) Memory() *held.Budget { return i.budget }

// Problems returns what is wrong with the judgement of bodies, for the operator.
func (i *Inspector) Problems() []string { return i.watch.Problems() }

// Collect implements metric.Collector.
func (i *Inspector) Collect(ch chan<- metric.Metric) {
	for n := range i.counters {
		ch <- metric.New(descs[n], metric.Count, float64(i.counters[n].Load()))
	}
	for why := content.TooLarge; why <= content.Cut; why++ {
		ch <- metric.New(unreadDesc, metric.Count, float64(i.unread[why].Load()), why.String())
	}
	for n, v := range map[int]int64{heldBytes: i.budget.Used(), heldWaiting: i.budget.Waiting(), judgingNow: i.judges.Used(), judgeWaiting: i.judges.Waiting()} {
		ch <- metric.New(descs[n], metric.Gauge, float64(v))
	}
}
