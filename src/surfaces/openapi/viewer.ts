/** The API viewer: swagger-ui from its npm package, served by us, without any other address on the network. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { SurfaceName } from '../../kernel/operation.ts';

export interface Asset {
  readonly text: string;
  readonly type: string;
}

interface Bundled {
  readonly type: string;
  /** Address of the file inside the package. */
  readonly locate: () => string;
}

const bundled: ReadonlyMap<string, Bundled> = new Map([
  ['swagger-ui.css', { type: 'text/css; charset=utf-8', locate: () => import.meta.resolve('swagger-ui-dist/swagger-ui.css') }],
  [
    'swagger-ui-bundle.js',
    { type: 'text/javascript; charset=utf-8', locate: () => import.meta.resolve('swagger-ui-dist/swagger-ui-bundle.js') },
  ],
]);

const cache = new Map<string, Asset>();

/** A file of the viewer, read when it is first asked for; `undefined` for any other name. */
export function viewerAsset(name: string): Asset | undefined {
  const known = cache.get(name);
  if (known) return known;
  const asset = ownAsset(name) ?? bundledAsset(name);
  if (asset) cache.set(name, asset);
  return asset;
}

function bundledAsset(name: string): Asset | undefined {
  const file = bundled.get(name);
  return file && { text: readFileSync(fileURLToPath(file.locate()), 'utf8'), type: file.type };
}

function ownAsset(name: string): Asset | undefined {
  if (name === 'viewer.js') return { text: script, type: 'text/javascript; charset=utf-8' };
  return name === 'viewer.css' ? { text: style, type: 'text/css; charset=utf-8' } : undefined;
}

/** Nothing inline runs; only the API itself may be called. */
export function viewerPolicy(hostUrl: string): string {
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

export const viewerPage = (surface: SurfaceName): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Penstock ${surface} API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/swagger/assets/swagger-ui.css">
<link rel="stylesheet" href="/swagger/assets/viewer.css">
</head>
<body>
<header><strong>Penstock</strong> <span>${surface} API</span> <a href="/swagger.json">OpenAPI 3.1</a></header>
<main id="viewer"></main>
<noscript>The viewer needs JavaScript. The description itself is at <a href="/swagger.json">/swagger.json</a>.</noscript>
<script src="/swagger/assets/swagger-ui-bundle.js"></script>
<script src="/swagger/assets/viewer.js"></script>
</body>
</html>
`;

const script = `SwaggerUIBundle({
  url: '/swagger.json',
  dom_id: '#viewer',
  deepLinking: true,
  docExpansion: 'none',
  filter: true,
  persistAuthorization: false,
  tryItOutEnabled: true,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
});
`;

const style = `body { margin: 0; background: #fafbfc; }
header { display: flex; gap: 0.75rem; align-items: baseline; padding: 0.9rem 1.5rem; background: #10324a; color: #fff; font: 16px system-ui, sans-serif; }
header strong { font-size: 1.15rem; letter-spacing: 0.02em; }
header span { opacity: 0.8; }
header a { margin-left: auto; color: #9fd3f5; }
#viewer { max-width: 1200px; margin: 0 auto; padding-bottom: 3rem; }
.swagger-ui .info { margin: 1.5rem 0 0.5rem; }
.swagger-ui .scheme-container { box-shadow: none; background: transparent; padding: 0.5rem 0; }
`;
