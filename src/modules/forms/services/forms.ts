/** Forms as operators keep them. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { isId, newId } from '../../../kernel/ids.ts';
import { type FormDefinition, type GivenForm, readDefinition } from '../definition/definition.ts';
import { formErrors } from '../errors.ts';
import { formEvent } from '../events.ts';
import {
  deleteForm,
  type FormFilter,
  type FormRow,
  formById,
  insertForm,
  listForms,
  lockForm,
  updateForm,
} from '../queries/forms.ts';
import type { FormParts } from './form-parts.ts';
import type { Submissions } from './submissions.ts';

export interface Forms {
  list(filter: FormFilter): ReturnType<typeof listForms>;
  /** Throws FORM_NOT_FOUND. */
  get(id: string): Promise<FormRow>;
  /** Throws FORM_INVALID, FORM_EXISTS. */
  create(caller: Caller, given: GivenForm): Promise<FormRow>;
  /** What is left out stays. Throws FORM_NOT_FOUND too. */
  update(caller: Caller, id: string, change: Partial<GivenForm>): Promise<FormRow>;
  /** Its submissions stay unless `cascade` is set. It takes none on any node when this returns. */
  remove(caller: Caller, id: string, cascade: boolean): Promise<void>;
  /** Deletes those that are there, with nothing of what was sent; answers how many there were. */
  removeMany(caller: Caller, ids: readonly string[]): Promise<number>;
  /** The definition as it would be stored. Throws FORM_INVALID. */
  read(given: GivenForm): FormDefinition;
}

type Parts = Pick<FormParts, 'database' | 'events' | 'known' | 'config'>;

export function createForms(parts: Parts, submissions: Pick<Submissions, 'removeAllOf'>): Forms {
  const { database, known } = parts;
  const read = (given: GivenForm): FormDefinition => {
    const { limits, spam } = parts.config();
    return readDefinition(given, { ...limits, honeypotField: spam.honeypotField });
  };
  const changing = createChanging(parts);

  const removeOne = async (transaction: Transaction, caller: Caller, id: string) => {
    const form = isId(id) ? await lockForm(transaction, id) : undefined;
    if (!form) return false;
    await deleteForm(transaction, id);
    await parts.events.emit(transaction, caller, formEvent('delete', nameOf(form)));
    transaction.afterCommit(() => known.forget(id), { alsoInDoubt: true });
    return true;
  };

  return {
    read,
    list: (filter) => listForms(database, filter),
    get: async (id) => existing(isId(id) ? await formById(database, id) : undefined),
    async create(caller, given) {
      const definition = read(given);
      return onTakenName(() =>
        database.transaction(async (transaction) => {
          const form = existing(await insertForm(transaction, newId(), definition));
          await parts.events.emit(transaction, caller, formEvent('create', nameOf(form)));
          return form;
        }),
      );
    },
    update: (caller, id, change) =>
      changing(caller, id, ({ definition }) => read({ ...definition, ...change } as GivenForm)),
    async remove(caller, id, cascade) {
      await database.transaction(async (transaction) => {
        if (!(await removeOne(transaction, caller, id))) throw formErrors.FORM_NOT_FOUND();
        if (cascade) await submissions.removeAllOf(transaction, id);
      });
    },
    removeMany: (caller, ids) =>
      database.transaction(async (transaction) => {
        let count = 0;
        for (const id of [...new Set(ids)].sort())
          if (await removeOne(transaction, caller, id)) count += 1;
        return count;
      }),
  };
}

function createChanging({ database, events, known }: Parts) {
  return (
    caller: Caller,
    id: string,
    change: (form: FormRow) => FormDefinition,
  ): Promise<FormRow> =>
    onTakenName(() =>
      database.transaction(async (transaction) => {
        const before = existing(isId(id) ? await lockForm(transaction, id) : undefined);
        const form = existing(await updateForm(transaction, id, change(before)));
        await events.emit(transaction, caller, formEvent('update', nameOf(form)));
        transaction.afterCommit(() => known.forget(id), { alsoInDoubt: true });
        return form;
      }),
    );
}

/** Also of a form that cannot be read: it can be removed. */
const nameOf = ({ id, definition }: FormRow) => ({ id, name: definition?.name ?? '' });

function existing(form: FormRow | undefined): FormRow {
  if (!form) throw formErrors.FORM_NOT_FOUND();
  return form;
}

async function onTakenName<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw codeOf(error) === '23505'
      ? formErrors.FORM_EXISTS({
          errors: [{ path: 'name', rule: 'unique', message: 'another form has this name' }],
          cause: error,
        })
      : error;
  }
}
