/** The routes of the API description. They are operations like all others, so they describe themselves too. */
import { createHash } from 'node:crypto';
import Type from 'typebox';
import { errors } from '../../kernel/errors.ts';
import { type Access, defineOperation, type Operation, Reply, type SurfaceName } from '../../kernel/operation.ts';
import type { OperationRegistry } from '../../kernel/registry.ts';
import type { SurfaceOptionsSource } from '../http/options.ts';
import { openApiDocument } from './document.ts';
import { viewerAsset, viewerPage, viewerPolicy } from './viewer.ts';

/** The group of these operations in the registry. */
const OWNER = 'core/docs';

const surfaces: readonly SurfaceName[] = ['client', 'admin'];

/** Adds the routes to both surfaces and keeps their access in step with the options. */
export function serveDocs(registry: OperationRegistry, options: Readonly<Record<SurfaceName, SurfaceOptionsSource>>): void {
  const documents = createDocuments(registry, options);
  const register = (): void => {
    registry.replace(
      OWNER,
      surfaces.flatMap((surface) => docsOperations(surface, options[surface], () => documents(surface))),
    );
  };
  for (const surface of surfaces) {
    options[surface].onChange(() => {
      documents.forget();
      register();
    });
  }
  register();
}

interface Document {
  readonly json: string;
  readonly etag: string;
}

/** Documents are made when they are asked for, once per state of the registry. */
function createDocuments(registry: OperationRegistry, options: Readonly<Record<SurfaceName, SurfaceOptionsSource>>) {
  const made = new Map<SurfaceName, Document>();
  const forget = (): void => made.clear();
  registry.onChange(forget);
  const documentOf = (surface: SurfaceName): Document => {
    const known = made.get(surface);
    if (known) return known;
    const json = openApiDocument(registry.all(), { surface, hostUrl: options[surface].current().hostUrl });
    const document = { json, etag: `"${createHash('sha256').update(json).digest('base64url').slice(0, 22)}"` };
    made.set(surface, document);
    return document;
  };
  return Object.assign(documentOf, { forget });
}

function docsOperations(surface: SurfaceName, source: SurfaceOptionsSource, document: () => Document): readonly Operation[] {
  const { docsPublic, hostUrl } = source.current();
  const guarded: Access = surface === 'admin' ? 'admin' : 'user';
  const common = { surface, method: 'GET', limit: 'standard', mcp: false, graphql: false } as const;
  const access = docsPublic ? 'public' : guarded;
  const page = viewerPage(surface);
  const html = { 'content-security-policy': viewerPolicy(hostUrl) };
  const viewer = (path: string): Operation =>
    defineOperation({
      ...common,
      id: `docs.${surface}.viewer${path.replace('/', '.')}`,
      path,
      access,
      input: {},
      output: Type.String({ contentMediaType: 'text/html' }),
      summary: 'Read the API description in a browser',
      handler: () => Reply.text(page, 'text/html; charset=utf-8', 200, html),
    });
  return [
    defineOperation({
      ...common,
      id: `docs.${surface}.description`,
      path: '/swagger.json',
      access,
      input: {},
      output: Type.Record(Type.String(), Type.Unknown()),
      summary: 'Get the OpenAPI 3.1 description of this surface',
      handler: () => {
        const { json, etag } = document();
        return Reply.json(json, { etag, 'cache-control': 'no-cache' });
      },
    }),
    viewer('/reference'),
    viewer('/swagger'),
    defineOperation({
      ...common,
      id: `docs.${surface}.asset`,
      path: '/swagger/assets/:file',
      access: 'public',
      input: { params: Type.Object({ file: Type.String({ description: 'Name of a file of the viewer.' }) }) },
      output: Type.String({ contentMediaType: 'text/plain' }),
      errors: [errors.NOT_FOUND],
      summary: 'Get a file of the viewer',
      handler: (_context, { params }) => {
        const asset = viewerAsset(params.file);
        if (!asset) throw errors.NOT_FOUND();
        return Reply.text(asset.text, asset.type, 200, { 'cache-control': 'public, max-age=3600' });
      },
    }),
  ];
}
