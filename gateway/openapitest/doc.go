// Package openapitest checks the answers of a gateway against its OpenAPI document,
// gateway/openapi.json. It is for tests only. A client made with
//
//	&http.Client{Transport: openapitest.Transport(t, &http.Transport{})}
//
// fails its test for each answer that does not match the document: its status, its
// headers, its media type, or its body. An object may have no undocumented fields, even
// though the document allows additional ones, so that clients accept later versions.
//
// A test may send invalid requests, but a request that succeeds must match the document.
package openapitest
