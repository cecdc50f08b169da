package plane

import "slices"

const serviceAccount = "ServiceAccount" // the admission plugin that mounts tokens into pods

// admissionControllers lists the controllers without which an admission plugin does not work, or
// leaves objects that cannot be deleted.
var admissionControllers = map[string][]string{
	serviceAccount:                 {"serviceaccount-controller", "serviceaccount-token-controller", "root-ca-certificate-publisher-controller"},
	"ResourceQuota":                {"resourcequota-controller"},
	"StorageObjectInUseProtection": {"persistentvolume-protection-controller", "persistentvolumeclaim-protection-controller"},
}

// withServiceAccounts adds the admission of service accounts to a configuration with RBAC, since
// roles are bound to them. Without controllers no namespace has an account, and every pod would be
// rejected.
func withServiceAccounts(c Config) Config {
	if c.RBAC && slices.Contains(c.Components, ControllerManager) && !slices.Contains(c.Admission, serviceAccount) {
		c.Admission = append(slices.Clone(c.Admission), serviceAccount)
	}
	return c
}

// controllersFor returns the controllers of c, and those that its admission plugins and RBAC need
// unless c disables them.
func controllersFor(c Config) []string {
	all := slices.Clone(c.Controllers)
	add := func(names ...string) {
		for _, n := range names {
			if !slices.Contains(all, n) && !slices.Contains(all, "-"+n) {
				all = append(all, n)
			}
		}
	}
	if c.RBAC {
		add("clusterrole-aggregation-controller") // fills the roles admin, edit and view
	}
	for _, a := range c.Admission {
		add(admissionControllers[a]...)
	}
	return all
}
