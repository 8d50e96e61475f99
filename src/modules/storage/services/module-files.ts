/** Files of other modules: in containers of their own, which users see nothing of. What users get of them is up to the module. */
import { type Caller, system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { type FileRow, lockFilesNamed } from '../queries/files.ts';
import { isModuleContainer } from './access.ts';
import { confirmedFile, rightTo } from './confirmed-reads.ts';
import type { FileBody } from './file-changes.ts';
import { isWithheld, servable } from './scanning.ts';
import type { StorageServices } from './storage-services.ts';

export interface ModuleFile {
  readonly id: string;
  /** For people. */
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  /** By its content. */
  readonly mimeType: string | null;
  readonly checksum: string | null;
  /** `Type:id`; null: nobody. */
  readonly owner: string | null;
  /** Nobody gets its content now: it is being examined, or something harmful was found in it. */
  readonly withheld: boolean;
}

export interface NewModuleFile {
  /** `module-<name>`. */
  readonly container: string;
  /** Unique there: whoever notes it first can find what a crash left behind. */
  readonly name: string;
  /** For people, one line. */
  readonly alias: string;
  /** A hint: the content decides. */
  readonly mimeType?: string | undefined;
}

export interface ModuleFiles {
  /** Stores a file for a module. Throws what uploads are refused for. */
  store(file: NewModuleFile, body: FileBody): Promise<ModuleFile>;
  /** A file that is there, whoever may read it: the module decides what becomes of it. Throws while the database is away. */
  find(id: string): Promise<ModuleFile | undefined>;
  /** The same, when this caller may read it; `undefined` for any other. */
  readable(caller: Caller, id: string): Promise<ModuleFile | undefined>;
  /** The content, for a module that has asked before whether somebody may read it. Throws FILE_NOT_FOUND, FILE_EXAMINED, FILE_INFECTED. */
  read(id: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
  /** An address of the content that works for a while, for whoever has it. Throws FILE_NOT_FOUND. */
  readUrl(id: string): Promise<string>;
  /** Deletes files in the transaction of the caller. Those that are gone already are nothing to it. */
  removeNamed(transaction: Transaction, container: string, names: readonly string[]): Promise<void>;
}

const asModule = system('storage');
/** What modules delete, nobody brings back. */
const gone = { forGood: true } as const;

export function createModuleFiles({
  files,
  links,
  access,
  delivery,
  config,
}: Pick<StorageServices, 'files' | 'links' | 'access' | 'delivery' | 'config'>): ModuleFiles {
  const viewOf = (file: FileRow): ModuleFile => ({
    id: file._id,
    name: file.alias ?? file.name,
    size: file.size,
    mimeType: file.mimeType,
    checksum: file.checksum,
    owner: file.owner,
    withheld: isWithheld(config(), file),
  });
  return {
    async store({ container, name, alias, mimeType }, body) {
      if (!isModuleContainer(container)) throw new Error(`${container} is no container of modules`);
      return viewOf(await files.create(asModule, { container, name, alias, mimeType }, body));
    },
    async find(id) {
      const file = await files.find(id).catch(ifMissing);
      return file && file.generation > 0 ? viewOf(file) : undefined;
    },
    async readable(caller, id) {
      const file = await confirmedFile({
        find: () => files.find(id),
        ...rightTo({ access }, caller, { action: 'content' }),
      }).catch(ifRefused);
      return file && file.generation > 0 ? viewOf(file) : undefined;
    },
    read: async (id, signal) => delivery.stream(servable(config(), await files.find(id)), signal),
    readUrl: async (id) => links.readUrl(await files.find(id), true),
    removeNamed: async (transaction, container, names) =>
      files.removeAll(
        transaction,
        asModule,
        await lockFilesNamed(transaction, container, names),
        gone,
      ),
  };
}

/** It is nothing to them; that nobody can tell is no answer. */
function ifRefused(error: unknown): undefined {
  if (error instanceof PenstockError && error.status >= 500) throw error;
}

/** Anything else may go better the next time. */
function ifMissing(error: unknown): undefined {
  if (error instanceof PenstockError && error.status === 404) return undefined;
  throw error;
}
