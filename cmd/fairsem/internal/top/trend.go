package top

import (
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

const (
	rateSpan   = 5 * time.Second  // grants a second are the mean of about that long
	expirySpan = 10 * time.Second // for which an expiry is recent
)

// row is the status of a name, and how it changes.
type row struct {
	inspect.Rated
	rated bool  // the rate is known
	gain  int64 // permits that expired lately
}

func (r row) key() string { return r.Name }

// trend compares answers. It is a value: the original does not change with the copy.
type trend struct {
	rates inspect.Rates
	at    time.Time
	names map[string]movement
}

// movement is trend's memory of a name.
type movement struct {
	samples []sample // the latest last
	expired int64
	gain    int64
	gained  time.Time // the latest of that
}

type sample struct{ grants, seconds float64 }

// add takes the status of all names at a moment.
func (t *trend) add(at time.Time, all []fairsem.Status) []row {
	seconds := at.Sub(t.at).Seconds()
	rates := t.rates.Add(at, all)
	names, rows := make(map[string]movement, len(all)), make([]row, len(all))
	for i, s := range all {
		m, known := t.names[s.Name]
		if rate, ok := rates[s.Name]; ok {
			m.samples = recent(m.samples, sample{rate * seconds, seconds})
		}
		m.expire(at, s.Expired, known)
		names[s.Name] = m
		rows[i] = row{Rated: inspect.Rated{Status: s}, gain: m.gain}
		rows[i].Rate, rows[i].rated = m.rate()
	}
	t.at, t.names = at, names
	return rows
}

// recent returns the samples of the last rateSpan, at least the new one.
func recent(samples []sample, latest sample) []sample {
	all := append(append(make([]sample, 0, len(samples)+1), samples...), latest)
	seconds, first := latest.seconds, len(all)-1
	for first > 0 && seconds+all[first-1].seconds <= rateSpan.Seconds() {
		first--
		seconds += all[first].seconds
	}
	return all[first:]
}

func (m *movement) rate() (rate float64, ok bool) {
	var sum sample
	for _, s := range m.samples {
		sum.grants += s.grants
		sum.seconds += s.seconds
	}
	if sum.seconds <= 0 {
		return 0, false
	}
	return sum.grants / sum.seconds, true
}

// expire takes how many permits have expired in all. Those from before the name was first seen are not recent; nor are
// those of a server that lost the name and counts from the start.
func (m *movement) expire(at time.Time, expired int64, known bool) {
	if at.Sub(m.gained) > expirySpan {
		m.gain = 0
	}
	if known && expired > m.expired {
		m.gain += expired - m.expired
		m.gained = at
	}
	m.expired = expired
}
