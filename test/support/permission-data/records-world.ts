/**
 * Projects and their tasks: what is said about them, and who may do what by it. Written from the guide, as directly as it
 * can be; it shares nothing with the platform but the definitions.
 */
import type { PlatformOptions } from '../../../src/data/schema/language/definition.ts';
import type { DefinitionBody } from '../permissions.ts';

export interface Project {
  owner: string | undefined;
  open: boolean;
}

export interface Task {
  owner: string | undefined;
  project: string | undefined;
  others: readonly string[];
  author: string | undefined;
  status: 'draft' | 'published';
}

/** Everybody, visitors included. */
export const visitor = '*';

export interface World {
  readonly projects: Map<string, Project>;
  readonly tasks: Map<string, Task>;
  /** `Subject relation Resource`. */
  readonly tuples: Set<string>;
  /** Users who hold the role. */
  readonly auditors: Set<string>;
  /** People by the team on which they stand. */
  readonly team: { readonly id: string; readonly members: Set<string> };
}

const open = { enabled: true, authenticated: false };
const closed = { enabled: true, authenticated: true };
export const options: PlatformOptions = {
  authorization: { enabled: true },
  cms: {
    enabled: true,
    crudOperations: { create: closed, read: open, update: closed, delete: closed },
  },
} as PlatformOptions;

const toUser = { type: 'Relation', model: 'User' } as const;
const toProject = { type: 'Relation', model: 'Project' } as const;
export const schemas = [
  { name: 'Project', fields: { title: 'String', open: 'Boolean' } },
  {
    name: 'Task',
    fields: {
      title: 'String',
      status: 'String',
      project: toProject,
      others: [toProject],
      author: toUser,
    },
  },
] as const;

export const definitions: readonly DefinitionBody[] = [
  {
    name: 'Project',
    version: 1,
    relations: {
      owner: ['User', 'Team'],
      reader: ['User', 'User:*', 'Team#member', '*'],
      editor: ['User'],
    },
    permissions: {
      read: ['edit', 'reader', { rule: "record.open == true || 'auditor' in caller.roles" }],
      edit: ['owner', 'editor'],
      delete: ['owner'],
    },
  },
  {
    name: 'Task',
    version: 1,
    relations: {
      owner: ['User', 'Team'],
      reader: { types: ['User', 'User:*', '*'], shareable: true },
      project: { from: 'project' },
      other: { from: 'others' },
      author: { from: 'author' },
      banned: ['User'],
    },
    permissions: {
      create: ['project->edit'],
      read: {
        exclusion: {
          base: [
            'owner',
            'reader',
            'author',
            'project->read',
            'other->edit',
            { rule: "record.status == 'published'" },
          ],
          subtract: ['banned'],
        },
      },
      edit: { intersection: ['read', { union: ['owner', 'author', 'project->edit'] }] },
      delete: ['owner'],
      share: ['owner', 'author'],
    },
  },
];

export const newWorld = (team: string): World => ({
  projects: new Map(),
  tasks: new Map(),
  tuples: new Set(),
  auditors: new Set(),
  team: { id: team, members: new Set() },
});

/** By a tuple that names the subject, everybody of its type, or everybody there is. */
const stands = ({ tuples }: World, who: string, relation: string, resource: string): boolean =>
  tuples.has(`* ${relation} ${resource}`) ||
  (who !== visitor &&
    [`User:${who}`, 'User:*'].some((one) => tuples.has(`${one} ${relation} ${resource}`)));

export function mayProject(
  world: World,
  who: string,
  action: 'read' | 'edit',
  id: string | undefined,
): boolean {
  const project = id === undefined ? undefined : world.projects.get(id);
  if (!project) return false;
  const resource = `Project:${id}`;
  const edits = project.owner === who || stands(world, who, 'editor', resource);
  if (action === 'edit' || edits) return edits;
  const { team, tuples, auditors } = world;
  return (
    stands(world, who, 'reader', resource) ||
    (team.members.has(who) && tuples.has(`Team:${team.id}#member reader ${resource}`)) ||
    project.open ||
    auditors.has(who)
  );
}

export function mayTask(
  world: World,
  who: string,
  action: 'read' | 'edit' | 'share',
  id: string,
): boolean {
  const task = world.tasks.get(id);
  if (!task) return false;
  const { owner, author, project, others, status } = task;
  const isTheirs = who !== visitor && (owner === who || author === who);
  if (action === 'share') return isTheirs;
  const resource = `Task:${id}`;
  const reads =
    isTheirs ||
    stands(world, who, 'reader', resource) ||
    mayProject(world, who, 'read', project) ||
    others.some((other) => mayProject(world, who, 'edit', other)) ||
    status === 'published';
  if (!reads || world.tuples.has(`User:${who} banned ${resource}`)) return false;
  return action === 'read' || isTheirs || mayProject(world, who, 'edit', project);
}
