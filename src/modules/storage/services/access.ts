/**
 * Who may do what with a file: the one place that decides. Public files are read by everybody. Of private ones, the
 * permission engine says it (`authorization.enabled`); without it they are read as `access.privateRead` says, and changed
 * and deleted by their owner alone. Whoever may read a record whose field holds a file may read the file.
 */
import { bothRules, eitherRule } from '../../../data/records/access/operation-access.ts';
import { recordErrors } from '../../../data/records/errors.ts';
import { type ActionUse, unknownAction } from '../../../kernel/action-uses.ts';
import { hasAuthority, modulesOfCaller, requireAuthority } from '../../../kernel/authority.ts';
import { type Caller, callerKey } from '../../../kernel/caller.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import type {
  AskedRows,
  PermissionEngine,
  PermissionPort,
  RowAction,
  RowPredicate,
} from '../../../kernel/permissions.ts';
import type { StorageConfig } from '../config.ts';
import { storageErrors } from '../errors.ts';
import { fileSchema } from '../schemas.ts';
import type { RecordsWithFiles } from './records-with-files.ts';

/** `content`: to read what is in the file, beside what is said about it. */
export type FileAction = 'read' | 'content' | 'edit' | 'delete' | 'share';

const reads = (action: FileAction): boolean => action === 'read' || action === 'content';

/** 403 for somebody who may not do it, and may know of the file. */
export const mayNot = (action: FileAction) =>
  storageErrors.FILE_ACCESS_DENIED({
    message: `You may not ${action === 'content' ? 'read' : action} this file`,
  });

/** What of a file decides. */
export interface GuardedFile {
  readonly _id: string;
  readonly owner: string | null;
  readonly isPublic: boolean;
  readonly container: string;
}

/** A file or a folder, as the permission engine knows it. */
export type GuardedType = 'File' | 'Folder' | 'Container';

export interface FileAccess {
  may(caller: Caller, action: FileAction, file: GuardedFile, scope?: string): Promise<boolean>;
  /** Whether what stands in the file says alone that the caller may: nothing beside it can change that. */
  saysItself(caller: Caller, action: FileAction, file: GuardedFile): boolean;
  /** For files that are asked for by their id. Throws 401 or 403; 404 where files are hidden that the caller may not read. */
  require(caller: Caller, action: FileAction, file: GuardedFile, scope?: string): Promise<void>;
  /** Whether the caller may add a file or a folder. Throws 401 or 403. */
  requireCreate(caller: Caller, container: string): void;
  /** Whether relations to a folder or container allow it; false while relations are not asked. */
  granted(
    caller: Caller,
    action: FileAction,
    objects: readonly (readonly [GuardedType, string])[],
  ): Promise<boolean>;
  /** Whom a new file belongs to: the caller, or the scope, which they must be allowed to edit. Throws 403. */
  ownerFor(caller: Caller, scope: string | undefined): Promise<string | null>;
  /** Which rows of files the caller may act on; `undefined`: all. `engine`: that of a read which confirms what it rests on. */
  rows(
    caller: Caller,
    action: RowAction,
    asked: Pick<AskedRows, 'scope' | 'ids'>,
    engine?: PermissionEngine,
  ): Promise<RowPredicate | undefined>;
  /** Another reason to let a user read a file, asked when there is none here. Answers how to take it away. */
  onRead(reason: ReadReason): () => void;
}

/** Whether a user may read a file for a reason of another module, such as a message that holds it. */
export type ReadReason = (userId: string, fileId: string) => Promise<boolean>;

/** Whom a file belongs to that this caller uploads for themselves; nobody for operators and the platform. */
export const ownerOf = (caller: Caller): string | null =>
  caller.kind === 'user' ? `User:${caller.userId}` : null;

/** Who uploaded it, as it is kept with the file. */
export const authorOf = (caller: Caller): string =>
  caller.kind === 'user' ? `User:${caller.userId}` : callerKey(caller);

/** Containers of other modules: users see nothing of them but what the module itself gives them. */
export const modulePrefix = 'module-';
export const isModuleContainer = (container: string): boolean => container.startsWith(modulePrefix);

export const isOperator = ({ kind }: Caller): boolean => kind === 'admin' || kind === 'system';

/** Containers of modules that a narrowed credential may look into; `undefined`: all. */
export const moduleContainersOf = (caller: Caller): readonly string[] | undefined =>
  modulesOfCaller(caller)?.map((module) => `${modulePrefix}${module}`);

/** Throws 403 for an operator whose credential does not reach the module that keeps its files in this container. */
export function requireModuleOf(caller: Caller, container: string): void {
  if (isOperator(caller) && isModuleContainer(container))
    requireAuthority(caller, moduleOf(container));
}

const moduleOf = (container: string) =>
  ({ kind: 'module', module: container.slice(modulePrefix.length) }) as const;

interface Dependencies {
  readonly config: () => StorageConfig;
  readonly permissions: PermissionPort;
  readonly recordsWithFiles: RecordsWithFiles;
}

interface Rules extends Dependencies {
  readonly reasons: Set<ReadReason>;
}

export function createFileAccess(dependencies: Dependencies): FileAccess {
  const reasons = new Set<ReadReason>();
  const rules: Rules = { ...dependencies, reasons };
  const may: FileAccess['may'] = (...question) => mayDo(rules, ...question);
  return {
    may,
    saysItself: (caller, action, file) =>
      isOperator(caller) ||
      (reads(action) && file.isPublic) ||
      (!asksRelations(rules) && mayByFile(rules, caller, action, file)),
    onRead(reason) {
      reasons.add(reason);
      return () => void reasons.delete(reason);
    },
    async require(caller, action, file, scope) {
      if (await may(caller, action, file, scope)) return;
      const { hideForbidden } = dependencies.config().access;
      if (hideForbidden && (action === 'read' || !(await may(caller, 'read', file, scope))))
        throw storageErrors.FILE_NOT_FOUND();
      if (caller.kind !== 'anonymous') throw mayNot(action);
      throw reads(action) ? storageErrors.FILE_NOT_PUBLIC() : errors.UNAUTHORIZED();
    },
    requireCreate(caller, container) {
      if (caller.kind === 'anonymous') throw errors.UNAUTHORIZED();
      if (isModuleContainer(container) && !(isOperator(caller) && mayOperate(caller, container)))
        throw storageErrors.FILE_ACCESS_DENIED();
    },
    async granted(caller, action, objects) {
      if (caller.kind !== 'user' || !asksRelations(rules)) return false;
      for (const [type, id] of objects)
        if (await engineNow(rules).check(caller, action, `${type}:${id}`)) return true;
      return false;
    },
    async ownerFor(caller, scope) {
      if (scope === undefined || !asksRelations(rules)) return ownerOf(caller);
      const { type, id } = await engineNow(rules).owner(caller, fileSchema.name, scope);
      return `${type}:${id}`;
    },
    rows: async (caller, action, ...asked) =>
      isOperator(caller)
        ? rowsOfOperator(caller, action)
        : bothRules(ofNoModule, await rowsFor(rules, caller, action, ...asked)),
  };
}

const asksRelations = ({ config }: Rules): boolean => config().authorization.enabled;

/** Throws 503 while the module that knows relations does not run. */
function engineNow({ permissions }: Rules): PermissionEngine {
  if (!permissions.engine) throw recordErrors.PERMISSIONS_UNAVAILABLE();
  return permissions.engine;
}

async function mayDo(
  rules: Rules,
  ...[caller, action, file, scope]: Parameters<FileAccess['may']>
): Promise<boolean> {
  // Other modules ask too: a token for them alone is none for files.
  if (isOperator(caller)) return mayOperate(caller, file.container);
  if (isModuleContainer(file.container)) return false;
  if (reads(action) && file.isPublic) return true;
  if (await mayByThemselves(rules, caller, action, file, scope)) return true;
  return reads(action) && mayReadElsewhere(rules, caller, file._id, scope);
}

const ofStorage = { kind: 'module', module: 'storage' } as const;

/** What a module keeps here is of that module too: a form's files are no more open than what was filled in. */
const mayOperate = (caller: Caller, container: string): boolean =>
  hasAuthority(caller, ofStorage) &&
  (!isModuleContainer(container) || hasAuthority(caller, moduleOf(container)));

async function mayByThemselves(
  rules: Rules,
  ...[caller, action, file, scope]: Parameters<FileAccess['may']>
): Promise<boolean> {
  if (caller.kind !== 'user') return false;
  if (asksRelations(rules)) {
    const resource = `${fileSchema.name}:${file._id}`;
    if (action !== 'content') return engineNow(rules).check(caller, action, resource, scope);
    return (
      (await engineNow(rules).check(caller, 'read', resource, scope)) &&
      mayReadContent(rules, caller, resource, scope)
    );
  }
  return mayByFile(rules, caller, action, file);
}

/** Without relations. */
function mayByFile(
  { config }: Rules,
  caller: Caller,
  action: FileAction,
  { owner }: GuardedFile,
): boolean {
  if (caller.kind !== 'user') return false;
  if (owner === ownerOf(caller)) return true;
  return reads(action) && config().access.privateRead === 'authenticated';
}

/** What the operator asks for contents beside `read`; with an action that is gone nobody has it. */
async function mayReadContent(
  rules: Rules,
  caller: Caller,
  resource: string,
  scope: string | undefined,
): Promise<boolean> {
  const action = await contentActionNow(rules);
  if (action === undefined) return false;
  return action === '' || engineNow(rules).check(caller, action, resource, scope);
}

/** Empty: none is asked for. `undefined`: one that is gone. */
async function contentActionNow(rules: Rules): Promise<string | undefined> {
  const { contentAction: action } = rules.config().authorization;
  const isKnown = action === '' || (await engineNow(rules).knows(fileSchema.name, action));
  return isKnown ? action : undefined;
}

/** Because something that holds the file may be read: a message, a record. */
async function mayReadElsewhere(
  { reasons, recordsWithFiles }: Rules,
  caller: Caller,
  fileId: string,
  scope: string | undefined,
): Promise<boolean> {
  if (caller.kind === 'user')
    for (const reason of reasons) if (await reason(caller.userId, fileId)) return true;
  return recordsWithFiles.mayRead(caller, fileId, scope);
}

async function rowsFor(
  rules: Rules,
  ...[caller, action, rows, engine]: Parameters<FileAccess['rows']>
): Promise<RowPredicate> {
  const isRead = action === 'read' || action === 'refer';
  const open = isRead ? publicRows : noRows;
  if (caller.kind !== 'user') return open;
  if (asksRelations(rules)) {
    const permitted = (asked: string) =>
      (engine ?? engineNow(rules)).predicate(caller, asked, fileSchema.name, rows);
    if (action !== 'refer') return eitherRule(open, await permitted(action));
    // Who reads the record gets the content, so whoever writes it must have it.
    const content = await contentActionNow(rules);
    const read = await permitted('read');
    if (content === undefined) return eitherRule(open, noRows);
    return eitherRule(open, content === '' ? read : bothRules(read, await permitted(content)));
  }
  return isRead && rules.config().access.privateRead === 'authenticated'
    ? allRows
    : eitherRule(open, ownRows(ownerOf(caller)));
}

const rule = (shape: string, text: string): RowPredicate => ({ shape, compile: () => text });
const allRows = rule('files', 'true');
const noRows = rule('nofile', 'false');
const ofNoModule: RowPredicate = {
  shape: 'nomodule',
  compile: (_id, _next, _use, alias = 't0') =>
    `not starts_with(${alias}."container", '${modulePrefix}')`,
};
/** All, or what a narrowed credential may look into. */
function ofModulesOf(caller: Caller): RowPredicate | undefined {
  const containers = moduleContainersOf(caller);
  return (
    containers && {
      shape: 'modulesof',
      compile: (_id, next, _use, alias = 't0') =>
        `(not starts_with(${alias}."container", '${modulePrefix}') or ${alias}."container" = any(${next(containers)}::text[]))`,
    }
  );
}
const publicRows: RowPredicate = {
  shape: 'publicfiles',
  compile: (_id, _next, _use, alias = 't0') => `${alias}."isPublic"`,
};
/** A record gives its files to whoever reads it: without authority over files, it may hold those that everybody reads. */
const rowsOfOperator = (caller: Caller, action: RowAction): RowPredicate | undefined =>
  action === 'refer' && !hasAuthority(caller, ofStorage)
    ? bothRules(ofNoModule, publicRows)
    : ofModulesOf(caller);
const ownRows = (owner: string | null): RowPredicate => ({
  shape: 'ownfiles',
  compile: (_id, next, _use, alias = 't0') => `${alias}."owner" = ${next(owner)}`,
});

/* The action that contents ask for (`authorization.contentAction`). */

type Settings = Pick<StorageConfig, 'authorization'>;

/** Definitions do not lose it. */
export const contentUses = ({
  authorization: { enabled, contentAction: action },
}: Settings): readonly ActionUse[] =>
  enabled && action !== ''
    ? [
        {
          schema: fileSchema.name,
          action,
          module: 'storage',
          type: 'config',
          key: 'storage',
          title: 'the setting authorization.contentAction of the module storage',
        },
      ]
    : [];

/** Throws 400 for one that is asked for from now on and that files do not have. */
export async function requireKnownAction(
  { engine }: PermissionPort,
  next: Settings,
  previous: Settings,
): Promise<void> {
  const [use] = contentUses(next);
  if (!use || !engine || contentUses(previous)[0]?.action === use.action) return;
  if (await engine.knows(use.schema, use.action)) return;
  throw invalid('authorization.contentAction', 'action', unknownAction(use));
}
