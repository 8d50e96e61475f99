/** `GET /` of both surfaces: whoever opens the address in a browser learns what answers here and where to go on. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  Reply,
  type SurfaceName,
} from '../../kernel/operations/operation.ts';

const Front = Type.Object({
  name: Type.Literal('Penstock'),
  surface: Type.Union([Type.Literal('client'), Type.Literal('admin')]),
  links: Type.Record(Type.String(), Type.String(), {
    description: 'Addresses on this surface, by what is there',
  }),
});

const ready = { ready: '/ready' };
const documents = { reference: '/reference', openapi: '/swagger.json' };

const titles: Readonly<Record<SurfaceName, { readonly title: string; readonly text: string }>> = {
  client: {
    title: 'Client API',
    text: 'Apps call this address on behalf of their users.',
  },
  admin: {
    title: 'Admin API',
    text: 'Operators and provisioning call this address. Every call but health needs a credential.',
  },
};

const words: Readonly<Record<string, string>> = {
  reference: 'API reference, to read and to try',
  openapi: 'OpenAPI 3.1 description',
  graphql: 'GraphQL',
  ready: 'Health',
};

/** Nothing is loaded and nothing runs. */
const policy =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'";

const page = (
  surface: SurfaceName,
  links: Readonly<Record<string, string>>,
): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Penstock ${surface} API</title>
<link rel="icon" href="data:,">
<style>
body { margin: 0; background: #fafbfc; color: #10324a; font: 17px/1.5 system-ui, sans-serif; }
main { max-width: 34rem; margin: 14vh auto 0; padding: 0 1.5rem; }
h1 { font-size: 1.6rem; margin: 0; }
h1 span { font-weight: 400; opacity: 0.7; }
ul { list-style: none; padding: 0; margin: 1.5rem 0 0; border-top: 1px solid #d8e0e6; }
li { border-bottom: 1px solid #d8e0e6; }
a { display: flex; justify-content: space-between; padding: 0.7rem 0; color: #0b63a5; text-decoration: none; }
a:hover, a:focus { text-decoration: underline; }
code { color: #5b7182; font-size: 0.85rem; }
</style>
</head>
<body>
<main>
<h1>Penstock <span>${titles[surface].title}</span></h1>
<p>${titles[surface].text}</p>
<ul>
${Object.entries(links)
  .map(
    // Relative, as a proxy may put a path before them.
    ([name, path]) => `<li><a href=".${path}">${words[name] ?? name} <code>${path}</code></a></li>`,
  )
  .join('\n')}
</ul>
</main>
</body>
</html>
`;

/** `open`: whether the documents of this surface need no credential; they are named only then. */
export function frontOperation(surface: SurfaceName, open: boolean): Operation {
  const graphql = surface === 'client' ? { graphql: '/graphql' } : {};
  const links = open ? { ...documents, ...graphql, ...ready } : ready;
  const html = page(surface, links);
  return defineOperation({
    surface,
    id: `docs.${surface}.front`,
    method: 'GET',
    path: '/',
    access: 'public',
    anyApp: true,
    limit: 'standard',
    mcp: false,
    graphql: false,
    input: { headers: Type.Object({ accept: Type.Optional(Type.String()) }) },
    output: Front,
    summary: 'Find out what answers here',
    textAnswer: 'A page, for browsers.',
    textType: 'text/html',
    handler: (_context, { headers }) =>
      headers.accept?.includes('text/html')
        ? Reply.text(html, 'text/html; charset=utf-8', 200, { 'content-security-policy': policy })
        : { name: 'Penstock' as const, surface, links },
  });
}
