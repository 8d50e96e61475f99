/**
 * Who may do what with a file: the one place that decides. While relations are not asked (5.8), files that are public
 * are read by everybody, private ones as `access.privateRead` says, and only their owner changes or deletes them.
 */
import {
  all,
  any,
  type Condition,
  equals,
  fieldTest,
  literal,
  not,
} from '../../../data/conditions/condition.ts';
import { type Caller, callerKey } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import type { StorageConfig } from '../config.ts';
import { storageErrors } from '../errors.ts';

export type FileAction = 'read' | 'edit' | 'delete';

/** What of a file decides. */
export interface GuardedFile {
  readonly _id: string;
  readonly owner: string | null;
  readonly isPublic: boolean;
  readonly container: string;
}

export interface FileAccess {
  may(caller: Caller, action: FileAction, file: GuardedFile): Promise<boolean>;
  /** Throws 401 or 403. */
  require(caller: Caller, action: FileAction, file: GuardedFile): Promise<void>;
  /** Whether the caller may add a file or a folder. Throws 401 or 403. */
  requireCreate(caller: Caller, container: string): Promise<void>;
  /** The files of a list that the caller may read. */
  readable(caller: Caller): Condition;
  /** Another reason to let a user read a file, asked when there is none here. Answers how to take it away. */
  onRead(reason: ReadReason): () => void;
}

/** Whether a user may read a file for a reason of another module, such as a message that holds it. */
export type ReadReason = (userId: string, fileId: string) => Promise<boolean>;

/** Whom a file belongs to that this caller uploads; nobody for operators and the platform. */
export const ownerOf = (caller: Caller): string | null =>
  caller.kind === 'user' ? `User:${caller.userId}` : null;

/** Who uploaded it, as it is kept with the file. */
export const authorOf = (caller: Caller): string =>
  caller.kind === 'user' ? `User:${caller.userId}` : callerKey(caller);

/** Containers of other modules: users see nothing of them but what the module itself gives them. */
const modulePrefix = 'module-';
export const isModuleContainer = (container: string): boolean => container.startsWith(modulePrefix);

const isOperator = ({ kind }: Caller): boolean => kind === 'admin' || kind === 'system';

export function createFileAccess(config: () => StorageConfig): FileAccess {
  const decide = (caller: Caller, action: FileAction, file: GuardedFile): boolean => {
    if (isOperator(caller)) return true;
    if (isModuleContainer(file.container)) return false;
    if (action === 'read' && file.isPublic) return true;
    if (caller.kind !== 'user') return false;
    if (file.owner === ownerOf(caller)) return true;
    return action === 'read' && config().access.privateRead === 'authenticated';
  };
  const reasons = new Set<ReadReason>();
  const may = async (caller: Caller, action: FileAction, file: GuardedFile): Promise<boolean> => {
    if (decide(caller, action, file)) return true;
    if (action !== 'read' || caller.kind !== 'user' || isModuleContainer(file.container))
      return false;
    for (const reason of reasons) if (await reason(caller.userId, file._id)) return true;
    return false;
  };
  return {
    may,
    onRead(reason) {
      reasons.add(reason);
      return () => void reasons.delete(reason);
    },
    async require(caller, action, file) {
      if (await may(caller, action, file)) return;
      if (caller.kind !== 'anonymous') throw storageErrors.FILE_ACCESS_DENIED();
      throw action === 'read' ? storageErrors.FILE_NOT_PUBLIC() : errors.UNAUTHORIZED();
    },
    async requireCreate(caller, container) {
      if (caller.kind === 'anonymous') throw errors.UNAUTHORIZED();
      if (isModuleContainer(container) && !isOperator(caller))
        throw storageErrors.FILE_ACCESS_DENIED();
    },
    readable(caller) {
      if (isOperator(caller)) return all();
      if (caller.kind === 'user' && config().access.privateRead === 'authenticated')
        return ofNoModule;
      const isPublic = equals('isPublic', true);
      if (caller.kind !== 'user') return all(ofNoModule, isPublic);
      return all(ofNoModule, any(isPublic, equals('owner', ownerOf(caller))));
    },
  };
}

const ofNoModule = not(
  fieldTest('container', {
    kind: 'like',
    right: literal(`${modulePrefix}%`),
    wildcards: true,
    ignoreCase: false,
  }),
);
