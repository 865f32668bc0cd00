/** The page of the dashboard: what operators have noted. */
export async function mount(element, api) {
  const found = await api.get("/admin/x/notes/notes");
  const list = document.createElement("ul");
  list.id = "example-notes";
  for (const note of found.notes) {
    const item = document.createElement("li");
    item.textContent = note;
    list.append(item);
  }
  element.append(list);
}
