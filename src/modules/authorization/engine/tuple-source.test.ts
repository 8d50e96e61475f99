/** Where statements read tuples from follows from the relations, not from how often they are asked for. */
import { expect, it } from 'vitest';
import { parseDefinition } from '../model/definition.ts';
import { buildModel } from '../model/model.ts';
import { sourceOf } from './tuple-source.ts';

const model = buildModel(
  [
    parseDefinition({
      name: 'Task',
      relations: { project: { from: 'project' }, reader: ['User'] },
      fields: { project: { field: 'project', many: false, type: 'Project' } },
      permissions: { read: ['reader', 'project->read'] },
    }),
    parseDefinition({
      name: 'Project',
      relations: { owner: ['User'] },
      permissions: { read: ['owner'] },
    }),
  ],
  1,
);

it('somebody who acts through thousands of objects has the text of one', () => {
  const project = { type: 'Task', relation: 'project' };
  const reader = { type: 'Task', relation: 'reader' };
  const one = sourceOf(model, [project, reader]);
  const many = sourceOf(model, [reader, ...Array.from({ length: 5_000 }, () => project)]);
  expect(many.rows).toBe(one.rows);
  expect(many).toBe(one);
});
