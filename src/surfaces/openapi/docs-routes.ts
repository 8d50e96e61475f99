/** The routes of the API description. They are operations like all others, so they describe themselves too. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import Type from 'typebox';
import { errors } from '../../kernel/errors.ts';
import {
  type Access,
  defineOperation,
  type Operation,
  Reply,
  type SurfaceName,
} from '../../kernel/operations/operation.ts';
import type { OperationRegistry } from '../../kernel/operations/registry.ts';
import type { SurfaceOptionsSource } from '../http/options.ts';
import { openApiDocument } from './document.ts';
import { frontOperation } from './front-page.ts';
import { viewerScript, viewerStyle } from './viewer.ts';

/* The API viewer: swagger-ui from its npm package, served by us, without any other address on the network. */

interface Asset {
  readonly text: string;
  readonly type: string;
  readonly etag: string;
}

interface Bundled {
  readonly type: string;
  /** Address of the file inside the package. */
  readonly locate: () => string;
}

const bundled: ReadonlyMap<string, Bundled> = new Map([
  [
    'swagger-ui.css',
    {
      type: 'text/css; charset=utf-8',
      locate: () => import.meta.resolve('swagger-ui-dist/swagger-ui.css'),
    },
  ],
  [
    'swagger-ui-bundle.js',
    {
      type: 'text/javascript; charset=utf-8',
      locate: () => import.meta.resolve('swagger-ui-dist/swagger-ui-bundle.js'),
    },
  ],
]);

const cache = new Map<string, Asset>();

/** A file of the viewer, read when it is first asked for; `undefined` for any other name. */
function viewerAsset(name: string): Asset | undefined {
  const known = cache.get(name);
  if (known) return known;
  const found = ownAsset(name) ?? bundledAsset(name);
  const asset = found && { ...found, etag: etagOf(found.text) };
  if (asset) cache.set(name, asset);
  return asset;
}

function bundledAsset(name: string): Omit<Asset, 'etag'> | undefined {
  const file = bundled.get(name);
  return file && { text: readFileSync(fileURLToPath(file.locate()), 'utf8'), type: file.type };
}

function ownAsset(name: string): Omit<Asset, 'etag'> | undefined {
  if (name === 'viewer.js') return { text: viewerScript, type: 'text/javascript; charset=utf-8' };
  return name === 'viewer.css' ? { text: viewerStyle, type: 'text/css; charset=utf-8' } : undefined;
}

/** Nothing inline runs; only the API itself may be called. Addresses are relative: a proxy may put a path before them. */
function viewerPolicy(hostUrl: string): string {
  const api = URL.canParse(hostUrl) ? ` ${new URL(hostUrl).origin}` : '';
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self'",
    `connect-src 'self'${api}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}

const viewerPage = (surface: SurfaceName): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Penstock ${surface} API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="swagger/assets/swagger-ui.css">
<link rel="stylesheet" href="swagger/assets/viewer.css">
</head>
<body>
<header><strong>Penstock</strong> <span>${surface} API</span> <a href="swagger.json">OpenAPI 3.1</a></header>
<main id="viewer"></main>
<noscript>The viewer needs JavaScript. The description itself is at <a href="swagger.json">/swagger.json</a>.</noscript>
<script src="swagger/assets/swagger-ui-bundle.js"></script>
<script src="swagger/assets/viewer.js"></script>
</body>
</html>
`;

/** The group of these operations in the registry. */
const OWNER = 'core/docs';

const surfaces: readonly SurfaceName[] = ['client', 'admin'];

/** Adds the routes to both surfaces and keeps their access in step with the options. */
export function serveDocs(
  registry: OperationRegistry,
  options: Readonly<Record<SurfaceName, SurfaceOptionsSource>>,
): void {
  const documents = createDocuments(registry, options);
  const register = (): void => {
    registry.replace(
      OWNER,
      surfaces.flatMap((surface) =>
        docsOperations(surface, options[surface], () => documents(surface)),
      ),
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

/** A weak one: compressed or not, it says the same. */
const etagOf = (text: string): string =>
  `W/"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`;

interface Document {
  readonly json: string;
  readonly etag: string;
}

/** Documents are made when they are asked for, once per state of the registry. */
function createDocuments(
  registry: OperationRegistry,
  options: Readonly<Record<SurfaceName, SurfaceOptionsSource>>,
) {
  const made = new Map<SurfaceName, Promise<Document>>();
  const forget = (): void => made.clear();
  registry.onChange(forget);
  const make = async (surface: SurfaceName): Promise<Document> => {
    const { hostUrl, needsApps } = options[surface].current();
    const { about } = registry;
    const json = await openApiDocument(registry.all(), { surface, hostUrl, needsApps, about });
    return { json, etag: etagOf(json) };
  };
  const documentOf = (surface: SurfaceName): Promise<Document> => {
    const document = made.get(surface) ?? make(surface);
    made.set(surface, document);
    return document;
  };
  return Object.assign(documentOf, { forget });
}

const sendAsset = ({ text, type, etag }: Asset): Reply =>
  Reply.text(text, type, 200, { 'cache-control': 'public, max-age=3600', etag });

function docsOperations(
  surface: SurfaceName,
  source: SurfaceOptionsSource,
  document: () => Promise<Document>,
): readonly Operation[] {
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
    frontOperation(surface, docsPublic),
    defineOperation({
      ...common,
      id: `docs.${surface}.description`,
      path: '/swagger.json',
      access,
      input: {},
      output: Type.Record(Type.String(), Type.Unknown()),
      summary: 'Get the OpenAPI 3.1 description of this surface',
      handler: async () => {
        const { json, etag } = await document();
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
      input: {
        params: Type.Object({
          file: Type.String({ description: 'Name of a file of the viewer.' }),
        }),
      },
      output: Type.String({ contentMediaType: 'text/plain' }),
      errors: [errors.NOT_FOUND],
      summary: 'Get a file of the viewer',
      handler: (_context, { params }) => {
        const asset = viewerAsset(params.file);
        if (!asset) throw errors.NOT_FOUND();
        return sendAsset(asset);
      },
    }),
  ];
}
