package fairsem

// PlaceOf returns the place in line from which a permit was granted: its token if it never waited.
func PlaceOf(p *Permit) int64 {
	p.ticket.view.mu.Lock()
	defer p.ticket.view.mu.Unlock()
	if p.ticket.place == 0 {
		return p.ticket.token
	}
	return p.ticket.place
}

// ScriptTexts returns every script as it is sent.
func ScriptTexts() (all []string) {
	for _, s := range allScripts {
		all = append(all, s.text)
	}
	return all
}
