import type { Json } from '../test/support/api.ts';

/** The document with each `$ref` into itself replaced by what it points to; a reference inside itself becomes "anything". */
export const resolveReferences = (document: Json): Json => resolve(document, document, []);

function resolve(node: Json, document: Json, open: readonly string[]): Json {
  if (Array.isArray(node)) return node.map((item) => resolve(item, document, open));
  if (typeof node !== 'object' || node === null) return node;
  if (typeof node.$ref === 'string') {
    if (open.includes(node.$ref)) return {};
    return resolve(pointedTo(document, node.$ref), document, [...open, node.$ref]);
  }
  return Object.fromEntries(
    Object.entries(node).map(([key, value]) => [key, resolve(value, document, open)]),
  );
}

function pointedTo(document: Json, reference: string): Json {
  const steps = reference.replace(/^#\//, '').split('/');
  return steps.reduce(
    (node, step) => node?.[step.replaceAll('~1', '/').replaceAll('~0', '~')],
    document,
  );
}
