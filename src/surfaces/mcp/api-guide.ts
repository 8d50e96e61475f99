/** The guide that agents read before they use the surfaces. */
export const apiGuide = `# How to use Penstock

Two HTTP surfaces, both JSON:

- The **client surface** is what apps call on behalf of their users (\`Authorization: Bearer <access token>\`).
- The **admin surface** is what operators and provisioning call (header \`masterkey\`, \`Authorization: Bearer <admin token>\`, or header \`credential: cdt_...\`). The tools of this server are its operations.

## Rules that hold everywhere

- Success is 200. An operation that answers text answers \`{"result": "..."}\`.
- An error is \`{"name", "status", "message", "code", "requestId"}\`, and \`errors: [{path, rule, message}]\` when input is not valid. \`code\` is stable.
- 400 not valid, 401 no or bad credential, 403 not allowed, 404 absent or invisible, 409 conflict, 412 somebody else was faster, 429 too many (wait \`Retry-After\` seconds), 503 not available now.
- Lists take \`skip\` (0) and \`limit\` (25, at most 1,000) and answer the total as \`count\`.
- Dates are ISO 8601 in UTC. Ids are texts; treat them as opaque.
- A write with the header \`Idempotency-Key\` happens once, however often it is sent.

## Build an app's backend

1. Make a schema (\`post_database_schemas\`): a name, fields, and \`conduitOptions\`. Its routes are live when the call returns: \`GET, POST /database/<Schema>\` and \`GET, PATCH, DELETE /database/<Schema>/:id\` on the client surface.
2. Set who may do what: \`conduitOptions.cms.crudOperations.<create|read|update|delete>.authenticated\`, and \`conduitOptions.authorization.enabled\` for rules per record.
3. Where a list needs a filter, make a custom endpoint (\`post_database_customendpoints\`).
4. Read the client surface's description (resource \`service://docs/client-api/swagger\`) for what apps can now call.

## Before you change something

Many operations take \`dryRun\`: they say what they would do and change nothing. Changes of configuration answer the new version; \`post_config_<module>_rollback\` goes back. Everything that you do is written to the audit log.
`;
