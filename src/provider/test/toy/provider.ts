import { createHash } from "node:crypto";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  attribute,
  between,
  type ClientContext,
  type Context,
  canonical,
  DiagnosticError,
  defineDataSource,
  defineFunction,
  defineProvider,
  defineResource,
  defineSchema,
  FunctionError,
  isKnown,
  isWhollyKnown,
  oneOf,
  type PlannedOf,
  type PrivateState,
  pathOf,
  requiresReplace,
  type StateOf,
  t,
  unknown,
  useStateForUnknown,
} from "../../src/framework";

/** Keeps things as files in a folder. */
interface Folder {
  readonly dir: string | undefined;
}

const schema = defineSchema({
  version: 1,
  description: "A thing with an attribute of every kind.",
  attributes: {
    id: attribute.string({ computed: true, description: "", planModifiers: [useStateForUnknown()] }),
    name: attribute.string({ required: true, description: "", planModifiers: [requiresReplace()] }),
    size: attribute.number({ optional: true, description: "Any number." }),
    secret: attribute.string({ optional: true, writeOnly: true, sensitive: true, description: "" }),
    tags: attribute.of(t.set(t.string), { optional: true, description: "" }),
    labels: attribute.of(t.map(t.string), { default: new Map([["made", "here"]]), description: "" }),
    pair: attribute.of(t.tuple([t.string, t.bool]), { optional: true, description: "" }),
    extra: attribute.of(t.dynamic, { optional: true, description: "" }),
    settings: attribute.single(
      {
        mode: attribute.string({ default: "fast", description: "", validators: [oneOf("fast", "slow")] }),
        level: attribute.integer({ optional: true, computed: true, description: "" }),
      },
      { optional: true, description: "" },
    ),
    rules: attribute.list(
      {
        port: attribute.integer({ required: true, description: "", validators: [between(1, 65_535)] }),
        note: attribute.string({ default: "-", description: "" }),
      },
      { optional: true, description: "" },
    ),
    owners: attribute.set(
      {
        who: attribute.string({ required: true, description: "" }),
        role: attribute.string({ default: "reader", description: "" }),
      },
      { optional: true, description: "" },
    ),
    old: attribute.bool({ optional: true, deprecated: "Use settings.", description: "" }),
    checksum: attribute.string({ computed: true, description: "Of everything else." }),
    revision: attribute.integer({ computed: true, description: "Counts updates; kept in private state." }),
  },
});
type State = StateOf<typeof schema>;

const checksum = (state: Omit<State, "checksum">) =>
  createHash("sha256")
    .update(canonical(schema.type, { ...state, checksum: null }))
    .digest("hex")
    .slice(0, 12);

const file = ({ dir }: Folder, id: string) => {
  if (dir === undefined) throw DiagnosticError.of("The folder is not known yet", "Apply what makes it first.");
  return join(dir, `${id}.txt`);
};

async function save(context: Context & { client: Folder }, state: State): Promise<State> {
  if (state.name === "boom") throw new Error(`a fault that quotes ${context.client.dir}/hunter2`);
  if (state.name === "half") {
    context.diagnostics.error("Only half done", "The file is there, the rest is not.", pathOf("name"));
  }
  await writeFile(file(context.client, state.id!), state.name, { signal: context.signal });
  return state;
}

const thing = defineResource<Folder, typeof schema>({
  typeName: "toy_thing",
  schema,
  identity: { attributes: { id: { type: t.string, description: "The file's name." } } },
  identityOf: ({ id }) => ({ id }),
  async read({ client, state }) {
    const name = await readFile(file(client, state.id!), "utf8").catch(() => null);
    return name === null ? null : { ...state, name };
  },
  plan: ({ planned, prior, replace }) => {
    // Shrinking is only possible by starting again.
    const shrinks = isKnown(planned.size) && Number(planned.size ?? 0) < Number(prior?.size ?? 0);
    if (shrinks) replace(pathOf("size"));
    return planned;
  },
  create: (context) => finish(context, `thing-${context.config.name}`, 1),
  update: (context) => {
    const revision = Number(Buffer.from(context.privateState.get()).toString() || "0") + 1;
    return finish(context, context.prior.id!, revision);
  },
  async delete({ client, prior }) {
    await rm(file(client, prior.id!));
  },
  async import({ client, target }) {
    const id = "id" in target ? target.id : String(target.identity.id);
    const name = await readFile(file(client, id), "utf8").catch(() => null);
    if (name === null) throw DiagnosticError.of(`There is no thing ${JSON.stringify(id)}`, "Its file is missing.");
    return {
      ...(Object.fromEntries(Object.keys(schema.attributes).map((key) => [key, null])) as unknown as State),
      id,
      name,
    };
  },
  upgraders: {
    0: {
      priorType: t.object({ id: t.string, title: t.string }),
      upgrade: ({ state }) => ({ id: state.id!, name: state.title!, labels: new Map(), revision: 0 }),
    },
  },
  move: ({ source }) =>
    source.typeName === "toy_old"
      ? { ...(JSON.parse(source.json) as State), labels: new Map(), tags: null, size: null }
      : undefined,
});

async function finish(
  context: ClientContext<Folder> & { readonly planned: PlannedOf<typeof schema>; readonly privateState: PrivateState },
  id: string,
  revision: number,
): Promise<State> {
  const planned = context.planned as unknown as State;
  const level = planned.settings?.level;
  const settled = {
    ...planned,
    id,
    secret: null,
    settings: planned.settings === null ? null : { ...planned.settings, level: isKnown(level) ? (level ?? 0) : 0 },
    revision,
  };
  context.privateState.set(Buffer.from(String(revision)));
  return save(context, { ...settled, checksum: checksum(settled) });
}

const echo = defineDataSource({
  typeName: "toy_echo",
  schema: defineSchema({
    description: "Gives back what it gets.",
    attributes: {
      value: attribute.of(t.dynamic, { required: true, description: "" }),
      same: attribute.of(t.dynamic, { computed: true, description: "" }),
    },
  }),
  read: ({ config }) => ({ ...config, same: config.value }),
});

const join_ = defineFunction({
  name: "join",
  summary: "Joins texts",
  description: "Joins texts with a separator.",
  parameters: [{ name: "separator", type: t.string, description: "" }],
  variadic: { name: "texts", type: t.string, description: "", allowNull: true },
  returns: t.string,
  run: ([separator, ...texts]) => {
    if (separator === "") throw new FunctionError("the separator is empty", 0);
    return texts.filter((text) => text !== null).join(separator);
  },
});

const whenKnown = defineFunction({
  name: "is_known",
  summary: "Whether a value is known",
  description: "Unknown while the plan does not know the value.",
  parameters: [{ name: "value", type: t.dynamic, description: "", allowNull: true, allowUnknown: true }],
  returns: t.bool,
  // A dynamic value brings its type along, so that what is unknown may stand inside it.
  run: ([value]) => (isWhollyKnown(value) ? true : unknown),
});

const providerSchema = defineSchema({
  description: "A provider that keeps things as files.",
  attributes: { dir: attribute.string({ required: true, sensitive: true, description: "" }) },
});

export const toyProvider = defineProvider<Folder, typeof providerSchema>({
  schema: providerSchema,
  resources: [thing],
  dataSources: [echo],
  functions: [join_, whenKnown],
  configure: ({ config }) => ({ dir: isKnown(config.dir) ? config.dir : undefined }),
});
