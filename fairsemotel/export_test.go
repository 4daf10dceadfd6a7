package fairsemotel

// Holding is the number of permits whose span has not ended.
func Holding(o *Observer) int {
	o.spans.mu.Lock()
	defer o.spans.mu.Unlock()
	return len(o.spans.holding)
}
