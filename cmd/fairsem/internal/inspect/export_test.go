package inspect

var (
	QueryTenantsUpTo = queryTenants
	Scan             = scanAll
)

// Complete is closed after the first whole scan.
func (f *Finder) Complete() <-chan struct{} { return f.scanned }
