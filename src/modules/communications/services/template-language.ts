/**
 * The language of templates is Handlebars: `{{name}}` (escaped in HTML), `{{{name}}}` (as it is), dotted paths, `#if`,
 * `#unless`, `#each`, `#with`, `lookup`, remarks, partials (`{{> name}}`) and layouts (`{{#> name}} .. {{/name}}` around
 * what the layout puts at `{{> @partial-block}}`). There are no helpers of one's own, and nothing of it is a program.
 */
import { LRUCache } from 'lru-cache';
import type { Kernel } from '../../../host/kernel.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { messageErrors } from '../errors.ts';
import {
  deletePartial,
  listPartials,
  type PartialRow,
  partialsNamed,
  savePartial,
} from '../template-queries.ts';
import { type Compiled, compileTemplate } from './template-language/compile.ts';
import { type Node, TemplateError } from './template-language/nodes.ts';
import { type Format, type Partials, render } from './template-language/render.ts';

export { TemplateError } from './template-language/nodes.ts';
export type { Partials } from './template-language/render.ts';

export type Variables = Readonly<Record<string, unknown>>;

export interface Template {
  /** Top-level names of the variables it uses, in order. */
  readonly variables: readonly string[];
  /** Names of the partials it uses itself. */
  readonly partials: readonly string[];
  readonly nodes: readonly Node[];
  /** `html`: values are escaped. A missing value is empty. Throws TEMPLATE_INVALID. */
  render(variables: Variables, format: Format, partials?: Partials, strict?: boolean): string;
}

/** By their text, so that a change needs no telling. Characters. */
const known = new LRUCache<string, Compiled>({
  maxSize: 4_000_000,
  sizeCalculation: (_compiled, text) => text.length + 100,
});

/** @throws TemplateError for what is not known, and for blocks that do not match. */
export function parseTemplate(text: string): Template {
  const compiled = known.get(text) ?? compileTemplate(text);
  known.set(text, compiled);
  const { nodes } = compiled;
  return {
    ...compiled,
    render: (variables, format, partials = new Map(), strict = false) =>
      render(nodes, variables, { format, partials, strict }),
  };
}

/* Templates out of requests: what cannot be read is 400 and names the field. */

/** Throws TEMPLATE_INVALID. */
export function parsePart(path: string, text: string): Template {
  try {
    return parseTemplate(text);
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    const { message } = error;
    throw messageErrors.TEMPLATE_INVALID({
      message: `${path}: ${message}`,
      errors: [{ path, rule: 'template', message }],
    });
  }
}

/* Parts that templates share: footers, layouts. */

export interface PartialTemplates {
  list(): Promise<readonly PartialRow[]>;
  /** Throws TEMPLATE_INVALID; 403 where a template uses it that the caller may not change. */
  save(caller: Caller, name: string, body: string): Promise<void>;
  /** Throws PARTIAL_NOT_FOUND; 403 as `save`. */
  remove(caller: Caller, name: string): Promise<void>;
}

export const createPartials = (
  { database }: Pick<Kernel, 'database'>,
  requireOwners: (caller: Caller, name: string) => Promise<void>,
): PartialTemplates => ({
  list: () => listPartials(database),
  async save(caller, name, body) {
    parsePart('body', body);
    await requireOwners(caller, name);
    await savePartial(database, name, body);
  },
  async remove(caller, name) {
    await requireOwners(caller, name);
    if (!(await deletePartial(database, name))) throw messageErrors.PARTIAL_NOT_FOUND();
  },
});

/** Partials may use others; those that are deeper are refused when the template is filled. */
const maxLevels = 20;

/** All that these templates use, and that those use. One statement for each level. */
export async function partialsOf(
  database: Queryable,
  templates: readonly Template[],
): Promise<Partials> {
  const found = new Map<string, Template['nodes']>();
  let missing = new Set(templates.flatMap(({ partials }) => partials));
  for (let level = 0; missing.size > 0 && level < maxLevels; level += 1) {
    const next = new Set<string>();
    for (const { name, body } of await partialsNamed(database, [...missing])) {
      const template = parseTemplate(body);
      found.set(name, template.nodes);
      for (const inner of template.partials) next.add(inner);
    }
    missing = new Set([...next].filter((name) => !found.has(name)));
  }
  return found;
}
