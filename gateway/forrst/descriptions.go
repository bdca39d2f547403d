package forrst

type description struct {
	Name      string             `json:"name"`
	Version   string             `json:"version"`
	Summary   string             `json:"summary"`
	Arguments []field            `json:"arguments"`
	Result    []field            `json:"result"`
	Errors    []errorDescription `json:"errors"`
}

type field struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Required    bool   `json:"required"`
	Description string `json:"description"`
}

type errorDescription struct {
	Code        string `json:"code"`
	Retryable   bool   `json:"retryable"`
	Description string `json:"description"`
}

const inUTC = "ISO 8601, in UTC"

var (
	keyField   = field{"key", "string", true, "The lock's full key: lock:{function}:{key}, or lock:{key}"}
	timeField  = field{"timestamp", "string", true, inUTC}
	stateField = field{"status", "string", true, "healthy or unhealthy"}

	notFound    = errorDescription{codeNotFound, false, "The lock is not held"}
	badArgument = errorDescription{codeArguments, false, "An argument is missing, unknown, or out of range"}
	storeFailed = errorDescription{codeUnavailable, true, "The store did not answer"}
	switchedOff = errorDescription{codeForbidden, false, "force-release is switched off"}
)

var descriptions = []description{
	{
		Name: fnRelease, Version: builtinVersion, Summary: "Release a lock that the owner holds.",
		Arguments: []field{keyField, {"owner", "string", true, "The owner that acquired it"}},
		Result:    []field{{"released", "boolean", true, "true"}, keyField},
		Errors: []errorDescription{
			notFound, {codeNotOwner, false, "Another owner holds the lock"},
			{codeReleasedBefore, false, "The owner released the lock within the last minute"}, badArgument, storeFailed,
		},
	},
	{
		Name: fnForceRelease, Version: builtinVersion, Summary: "Release a lock of any owner. Over NATS this needs the gateway's token, if one is set.",
		Arguments: []field{keyField},
		Result:    []field{{"released", "boolean", true, "true"}, keyField, {"forced", "boolean", true, "true"}},
		Errors: []errorDescription{
			notFound, {codeUnauthorized, false, "The token is missing or wrong"},
			switchedOff, badArgument, storeFailed,
		},
	},
	{
		Name: fnStatus, Version: builtinVersion, Summary: "Report whether a lock is held, its owner and its remaining time.",
		Arguments: []field{keyField},
		Result: []field{
			keyField, {"locked", "boolean", true, "Whether the lock is held; otherwise the fields below are missing"},
			{"owner", "string", false, "Its owner"}, {"acquired_at", "string", false, inUTC},
			{"expires_at", "string", false, inUTC},
			{"ttl_remaining", "integer", false, "Whole seconds until it expires"},
			{"fence", "integer", false, "Its fencing token"},
		},
		Errors: []errorDescription{badArgument, storeFailed},
	},
	{
		Name: fnPing, Version: builtinVersion, Summary: "Report that the server answers.",
		Arguments: []field{}, Result: []field{stateField, timeField}, Errors: []errorDescription{badArgument},
	},
	{
		Name: fnHealth, Version: builtinVersion, Summary: "Report whether calls can be served.",
		Arguments: []field{},
		Result: []field{
			stateField, timeField, {"version", "string", false, "Of the server"},
			{"components", "object", true, "The status of the store, and of the connection to functions"},
		},
		Errors: []errorDescription{badArgument},
	},
	{
		Name: fnCapabilities, Version: builtinVersion, Summary: "List the protocol versions, functions and extensions of the server. Functions of other processes are not listed.",
		Arguments: []field{},
		Result: []field{
			{"service", "string", true, "kvslots"}, {"protocolVersions", "array", true, "Of Forrst"},
			{"functions", "array", true, "Names"}, {"extensions", "array", true, "urn and version of each"},
		},
		Errors: []errorDescription{badArgument},
	},
	{
		Name: fnDescribe, Version: builtinVersion, Summary: "Describe the server's own functions.",
		Arguments: []field{{"function", "string", false, "The name of a function; without it all functions are described"}},
		Result: []field{
			{"forrst", "string", true, "Version of Forrst"}, {"info", "object", true, "title and version of the server"},
			{"functions", "array", true, "name, version, summary, arguments, result and errors of each"},
		},
		Errors: []errorDescription{{codeFunction, false, "There is no function of that name"}, badArgument},
	},
}
