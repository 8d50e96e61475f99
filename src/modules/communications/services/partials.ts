/** Parts that templates share: footers, layouts. */
import type { Kernel } from '../../../host/kernel.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { messageErrors } from '../errors.ts';
import {
  deletePartial,
  listPartials,
  type PartialRow,
  partialsNamed,
  savePartial,
} from '../template-queries.ts';
import { type Partials, parsePart, parseTemplate, type Template } from './template-language.ts';

export interface PartialTemplates {
  list(): Promise<readonly PartialRow[]>;
  /** Throws TEMPLATE_INVALID. */
  save(name: string, body: string): Promise<void>;
  /** Throws PARTIAL_NOT_FOUND. */
  remove(name: string): Promise<void>;
}

export const createPartials = ({ database }: Pick<Kernel, 'database'>): PartialTemplates => ({
  list: () => listPartials(database),
  async save(name, body) {
    parsePart('body', body);
    await savePartial(database, name, body);
  },
  async remove(name) {
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
