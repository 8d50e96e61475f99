/** What agents can read: the descriptions of both surfaces, and how to use them. */
import type { SurfaceName } from '../../kernel/operation.ts';
import { moduleOf, type OperationRegistry } from '../../kernel/registry.ts';
import { openApiDocument } from '../openapi/document.ts';
import { apiGuide } from './api-guide.ts';

/** Interface 4.9; existing clients also ask under the scheme of the implementation that they know. */
const base = /^(?:service|conduit):\/\/docs\//;

const resources = [
  { uri: 'service://docs/admin-api/swagger', name: 'admin-api', title: 'OpenAPI of the admin surface', mimeType: 'application/json' },
  { uri: 'service://docs/client-api/swagger', name: 'client-api', title: 'OpenAPI of the client surface', mimeType: 'application/json' },
  { uri: 'service://docs/api-guide', name: 'api-guide', title: 'How to use both surfaces', mimeType: 'text/markdown' },
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
  read(uri: string): { contents: { uri: string; mimeType: string; text: string }[] } | undefined;
}

export function createResources(registry: OperationRegistry, hostUrl: (surface: SurfaceName) => string): Resources {
  const made = new Map<string, string>();
  registry.onChange(() => made.clear());
  const once = (key: string, make: () => string): string => {
    const known = made.get(key) ?? make();
    made.set(key, known);
    return known;
  };
  const description = (surface: SurfaceName): string =>
    once(surface, () => openApiDocument(registry.all(), { surface, hostUrl: hostUrl(surface) }));
  const ofModule = (module: string): string | undefined => {
    const operations = registry.all().filter(({ owner }) => moduleOf(owner) === module);
    if (!operations.some(({ operation }) => operation.surface === 'admin')) return undefined;
    return once(`admin/${module}`, () => openApiDocument(operations, { surface: 'admin', hostUrl: hostUrl('admin') }));
  };

  const textOf = (path: string): string | undefined => {
    if (path === 'api-guide') return apiGuide;
    if (path === 'admin-api/swagger') return description('admin');
    if (path === 'client-api/swagger') return description('client');
    const module = /^admin-api\/([a-z-]{1,64})$/.exec(path)?.[1];
    return module === undefined ? undefined : ofModule(module);
  };

  return {
    list: () => ({ resources: [...resources] }),
    templates: () => ({ resourceTemplates: [...templates] }),
    read(uri) {
      const path = base.test(uri) ? uri.replace(base, '') : undefined;
      const text = path === undefined ? undefined : textOf(path);
      if (text === undefined) return undefined;
      return { contents: [{ uri, mimeType: path === 'api-guide' ? 'text/markdown' : 'application/json', text }] };
    },
  };
}
