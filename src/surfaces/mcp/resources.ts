/** What agents can read: the descriptions of both surfaces, and how to use them. */
import type { SurfaceName } from '../../kernel/operations/operation.ts';
import {
  moduleOf,
  type OperationRegistry,
  type OwnedOperation,
} from '../../kernel/operations/registry.ts';
import type { SurfaceOptions } from '../http/options.ts';
import { openApiDocument } from '../openapi/document.ts';

/** The guide that agents read before they use the surfaces. */
const apiGuide = `# How to use Penstock

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

## Before you call a tool

The list of tools is short. \`describe_tool\` answers the whole schemas of a tool: ask it before you send arguments whose shape the list leaves out. Prompts (\`prompts/list\`) tell how the common jobs are done.

## Before you change something

Many operations take \`dryRun\`: they say what they would do and change nothing. Changes of configuration answer the new version; \`post_config_<module>_rollback\` goes back. Everything that you do is written to the audit log.
`;

/** Interface 4.9; existing clients also ask under the scheme of the implementation that they know. */
const base = /^(?:service|conduit):\/\/docs\//;

const resources = [
  {
    uri: 'service://docs/admin-api/swagger',
    name: 'admin-api',
    title: 'OpenAPI of the admin surface',
    mimeType: 'application/json',
  },
  {
    uri: 'service://docs/client-api/swagger',
    name: 'client-api',
    title: 'OpenAPI of the client surface',
    mimeType: 'application/json',
  },
  {
    uri: 'service://docs/api-guide',
    name: 'api-guide',
    title: 'How to use both surfaces',
    mimeType: 'text/markdown',
  },
] as const;

const templates = [
  {
    uriTemplate: 'service://docs/admin-api/{module}',
    name: 'admin-api-module',
    title: 'OpenAPI of one module on the admin surface',
    mimeType: 'application/json',
  },
] as const;

export interface Resources {
  list(): { resources: (typeof resources)[number][] };
  templates(): { resourceTemplates: (typeof templates)[number][] };
  /** Nothing for an address that nobody has. */
  read(
    uri: string,
  ): Promise<{ contents: { uri: string; mimeType: string; text: string }[] } | undefined>;
}

export function createResources(
  registry: OperationRegistry,
  optionsOf: (surface: SurfaceName) => SurfaceOptions,
): Resources {
  const made = new Map<string, Promise<string>>();
  registry.onChange(() => made.clear());
  const once = (key: string, make: () => Promise<string>): Promise<string> => {
    const known = made.get(key) ?? make();
    made.set(key, known);
    return known;
  };
  const describe = (surface: SurfaceName, operations: readonly OwnedOperation[]) => {
    const { hostUrl, needsApps } = optionsOf(surface);
    return openApiDocument(operations, { surface, hostUrl, needsApps, about: registry.about });
  };
  const description = (surface: SurfaceName): Promise<string> =>
    once(surface, () => describe(surface, registry.all()));
  const ofModule = (module: string): Promise<string> | undefined => {
    const operations = registry.all().filter(({ owner }) => moduleOf(owner) === module);
    if (!operations.some(({ operation }) => operation.surface === 'admin')) return undefined;
    return once(`admin/${module}`, () => describe('admin', operations));
  };

  const textOf = (path: string): Promise<string> | string | undefined => {
    if (path === 'api-guide') return apiGuide;
    if (path === 'admin-api/swagger') return description('admin');
    if (path === 'client-api/swagger') return description('client');
    const module = /^admin-api\/([a-z-]{1,64})$/.exec(path)?.[1];
    return module === undefined ? undefined : ofModule(module);
  };

  return {
    list: () => ({ resources: [...resources] }),
    templates: () => ({ resourceTemplates: [...templates] }),
    async read(uri) {
      const path = base.test(uri) ? uri.replace(base, '') : undefined;
      const text = path === undefined ? undefined : await textOf(path);
      if (text === undefined) return undefined;
      return {
        contents: [
          { uri, mimeType: path === 'api-guide' ? 'text/markdown' : 'application/json', text },
        ],
      };
    },
  };
}
